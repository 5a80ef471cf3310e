"""The store, opened for a command."""

from __future__ import annotations

from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.errors import MonkeyTreeError

from .errors import CommandFailed, Exit


def open_store(settings: Settings) -> Store:
    """The store of ``settings``, its tables made where they are missing.

    Raises:
        CommandFailed: it cannot be reached or written; the message has the database's own words.
        BadSetting, StoreVersionMismatch, OSError: as they are.
    """
    try:
        store = Store(settings.database_url)
        store.create()
    except (MonkeyTreeError, OSError):
        raise
    except Exception as error:  # noqa: BLE001  # the driver's own kinds, which only the adapters know
        first_line = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise CommandFailed(
            f"the store cannot be opened: {first_line} (data in {settings.data}; DATABASE_URL names another)",
            Exit.INTERNAL,
        ) from None
    return store
