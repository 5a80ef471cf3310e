"""``monkeytree validate``: a packet-level replay, run as ``python -m monkeytree.validation``."""

from __future__ import annotations

import signal
import subprocess
import sys

import click


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": [],
        "allow_interspersed_args": False,
    }
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def validate(arguments: tuple[str, ...]) -> int:
    """Replay the flows of a plan, or of a placement as it stands, packet by packet (--help: all options).

    Exit code: 0 isolated, 6 not; with --scenario 0 it ran to its end, 7 it did not; 2 bad input, 1 the
    simulator cannot be used here (the message names the cure) or failed.
    """
    command = [sys.executable, "-m", "monkeytree.validation", *arguments]
    with subprocess.Popen(command) as child:
        # Ctrl-C reaches the child too, which ends in order; we only hand its exit code on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        code = child.wait()
    return 128 - code if code < 0 else code
