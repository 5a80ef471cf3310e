"""What a command writes, checked before its work: hours of simulation are not to end in "no such folder"."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


class OutputFile(click.Path):
    """A file to write, in a folder that is there; ``-`` is standard output where ``allow_dash`` says so."""

    def __init__(self, *, allow_dash: bool = True, path_type: type[str] | type[Path] | None = None) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=allow_dash, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As of :class:`click.Path`, which looks at a file that exists; else at its folder."""
        found = super().convert(value, param, ctx)
        if not (self.allow_dash and str(found) == "-") and not os.path.exists(found):
            why = _why_not_in(Path(os.fsdecode(found)).parent)
            if why is not None:
                self.fail(f"{str(found)!r} cannot be written: {why}", param, ctx)
        return found


class OutputFolder(click.Path):
    """A folder to write into; it and its parents are made where they are missing."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As of :class:`click.Path`; of a folder that is still missing, its nearest parent is looked at."""
        found = super().convert(value, param, ctx)
        there = Path(os.fsdecode(found)).absolute()
        while not there.exists():
            there = there.parent
        why = _why_not_in(there)
        if why is not None:
            self.fail(f"{str(found)!r} cannot be written: {why}", param, ctx)
        return found


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """A write that fails (a full disk) names no file of its own accord: it is to be ``path``'s failure."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or str(path) == "-":
            raise
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _why_not_in(folder: Path) -> str | None:
    if not folder.exists():
        return f"there is no folder {str(folder)!r}"
    if not folder.is_dir():
        return f"{str(folder)!r} is no folder"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"no file can be made in {str(folder)!r}"
