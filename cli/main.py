"""Where the command line starts: the group of commands, and the one place that maps errors."""

from __future__ import annotations

import os
import select
import sys
from importlib import import_module

import click

import monkeytree

from .errors import report

#: As a shell tells of a process that SIGPIPE ended.
READER_LEFT = 141

# Command -> module of this package and the click command in it. Modules are imported when asked
# for, so that `monkeytree plan` does not pay for the service.
COMMANDS = {
    "plan": ("plan", "plan"),
    "check": ("check", "check"),
    "validate": ("validate", "validate"),
    "routes": ("routes", "routes"),
    "probe": ("probe", "probe"),
    "ranks": ("ranks", "ranks"),
    "serve": ("serve", "serve"),
    "demo": ("demo", "demo"),
    "simulate": ("simulate", "simulate"),
    "reproduce": ("reproduce", "reproduce"),
    "savings": ("savings", "savings"),
    "drill": ("drill", "drill"),
    "token": ("token", "token"),
    "agent": ("agent", "agent"),
    "slurm": ("slurm", "slurm"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(import_module(f".{module}", __package__), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(monkeytree.__version__, prog_name="monkeytree")
def cli() -> None:
    """The fewest worker moves that give every flow of a training cluster an uplink of its own."""


def main() -> None:
    """Run the command line and exit with its code; a user never sees a traceback."""
    sys.exit(_run())


def _run() -> int:
    output = _kept_output()
    try:
        result = cli.main(prog_name="monkeytree", standalone_mode=False)
        sys.stdout.flush()
        return int(result or 0)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, SystemExit) as error:  # click and rich make SystemExit(1) of a broken pipe
        if not _reader_left(output):
            if isinstance(error, SystemExit):
                raise
            return report(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered has nobody to read it
        return READER_LEFT
    except Exception as error:  # noqa: BLE001  # the edge: everything ends as a message and a code
        return report(error)


def _kept_output() -> int | None:
    """Standard output once more, as it is now; None where it is closed."""
    try:
        return os.dup(1)
    except OSError:
        return None


def _reader_left(output: int | None) -> bool:
    """Whether ``output`` is a pipe or socket whose other end was closed (head, less)."""
    if output is None:
        return False
    poll = select.poll()
    poll.register(output, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


if __name__ == "__main__":
    main()
