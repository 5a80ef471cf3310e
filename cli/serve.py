"""``monkeytree serve``: the whole service on one machine."""

from __future__ import annotations

import ipaddress
import signal
import time
from pathlib import Path
from types import FrameType

import click

from monkeytree.adapters.store import Store

from .errors import CommandFailed, Exit
from .stores import open_store
from .supervisor.broker import NoServer
from .supervisor.datadir import DataDirInUse, default_data_dir
from .supervisor.service import Service
from .supervisor.tree import ChildFailed

TICK_S = 0.2


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one."
)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Where plans are kept (default: $MONKEYTREE_DATA or ./monkeytree-data).")  # fmt: skip
def serve(host: str, port: int, data: Path | None) -> int:
    """Run Valkey, the API, a worker and the reaper as one process tree; Ctrl-C stops them all.

    REDIS_URL and DATABASE_URL name servers of your own instead of the embedded ones.
    """
    interrupt_on_signals()
    with open_service(data or default_data_dir(), host, port) as service:
        try:
            start_service(service)
            greet(service, host)
            while True:
                time.sleep(TICK_S)
                service.tree.tick()
        except KeyboardInterrupt:
            tell("stopping")
    return Exit.OK


def interrupt_on_signals() -> None:
    """SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt: ``with`` blocks stop what was started.

    Asked again meanwhile we leave at once; the leash and the warden see to the children.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def open_service(data: Path, host: str, port: int) -> Service:
    """The service, its failures told as messages."""
    try:
        return Service(data, host=host, port=port, say=tell)
    except (DataDirInUse, NoServer) as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"cannot serve on {host}:{port} with the data in {data}: {error}") from None


def start_service(service: Service) -> None:
    """Make the store, start the children, and wait for the API."""
    open_store(service.settings).close()
    try:
        service.start()
    except ChildFailed as error:
        raise CommandFailed(f"{error}; its own words stand above", Exit.INTERNAL) from None


def greet(service: Service, host: str) -> None:
    """Say where it listens and, at the first start on loopback, print a token for all roles."""
    click.echo(f"MonkeyTree listens on {service.url} (documentation: {service.url}/docs)")
    store = open_store(service.settings)
    if not store.has_tokens():
        if is_loopback(host):
            click.echo(f"token for all roles, shown once: {first_token(store)}")
        else:
            tell(
                f"nobody can call it yet: {host} is not loopback, so no token was made. Add one with\n"
                f"  monkeytree token add NAME --role scheduler --data {service.settings.data}"
            )
    click.echo("Ctrl-C stops it")


def first_token(store: Store) -> str:
    """A token for all roles, named ``serve``."""
    from monkeytree.adapters.tokens import ROLES

    return store.add_token("serve", tuple(ROLES))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tell(message: str) -> None:
    """To standard error."""
    click.echo(f"monkeytree serve: {message}", err=True)
