"""What is happening, on standard error: a bar for people, lines for logs, JSON for programs."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

Form = Literal["auto", "json", "none"]


class Teller:
    """Tells what is done and how much of it; a context manager.

    With ``json`` each change is one line ``{"progress": {"stage": ..., "done": 0.25}}``.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.stage = ""
        console = Console(stderr=True)
        self._live = form == "auto" and console.is_terminal
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Teller:
        if self._live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()

    def say(self, stage: str) -> None:
        """A new stage begins."""
        self.stage = stage
        if self._live:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(stage, total=None)
        elif self.form == "auto":
            self._console.print(f"{stage} ...", highlight=False, markup=False)
        else:
            self._line(None)

    def done(self, work: float, total: float) -> None:
        """So much of the stage is done; ``total`` may grow."""
        part = work / total if total else 1.0
        if self._live and self._task is not None:
            self._bar.update(self._task, total=1.0, completed=part)
        elif self.form == "json":
            self._line(part)

    def _line(self, part: float | None) -> None:
        if self.form == "json":
            row = {"progress": {"stage": self.stage, "done": None if part is None else round(part, 4)}}
            print(json.dumps(row), file=sys.stderr, flush=True)  # noqa: T201  # the protocol
