"""``python -m monkeytree.validation``: where the packet-level replay starts.

Exit codes: 0 isolated (with ``--scenario``: it ran to its end), 6 not isolated, 7 a scenario did not
finish, 2 bad input, 1 the simulator cannot be used here or failed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from monkeytree.errors import InvalidDocument, InvalidSnapshot, MonkeyTreeError, Offence

from . import options as cli
from .children import stop_with_children
from .progress import Teller

ISOLATED, INTERNAL, BAD_INPUT, NOT_ISOLATED, NOT_FINISHED = 0, 1, 2, 6, 7


def main(arguments: list[str] | None = None) -> int:
    """Run it; nothing but messages reaches a user."""
    options = cli.parse(arguments)
    signal.signal(signal.SIGINT, stop_with_children)
    signal.signal(signal.SIGTERM, stop_with_children)
    try:
        return _scenario(options) if options.scenario is not None else _snapshot(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001  # the edge: everything ends as a message and a code
        return _report(error)


def _snapshot(options: Namespace) -> int:
    from monkeytree.wire.plan import parse_plan
    from monkeytree.wire.snapshot import parse_snapshot

    from .grouping import Buffers
    from .profiles import resolve
    from .replay import replay, sample_interval_us
    from .report import report
    from .runner import prepare, run_scenario
    from .scenario_document import read_scenario
    from .simulate import Meter, Simulator

    snapshot = parse_snapshot(_read(options.snapshot))
    plan = None if options.plan is None else parse_plan(_read(options.plan))
    _check_links(options, snapshot)
    params = cli.params(options)
    if options.plot is not None:
        params["sample_us"] = sample_interval_us(snapshot, cli.knobs(options))
    read_scenario({"format": 1, "hosts": 1, "switches": [], "links": [], "flows": [], "params": params})
    with Teller(options.progress) as teller:
        prepare(teller.say)
        simulator = Simulator(
            run_scenario, params, Buffers.of(resolve(params)), options.jobs, options.timeout,
            not options.together, Meter(teller.done),
        )  # fmt: skip
        found = replay(snapshot, plan, cli.knobs(options), simulator, teller.say)
    document = report(found, params)
    _write_all(options, document, found)
    return ISOLATED if document["isolated"] else NOT_ISOLATED


def _check_links(options: Namespace, snapshot: Any) -> None:
    known = {(rack.id, spine) for rack in snapshot.racks for spine in rack.spines}
    for rack, spine in options.fail_link:
        if (rack, spine) not in known:
            raise InvalidSnapshot([Offence("/racks", f"has no live uplink {rack}:{spine} to fail", rack)])


def _scenario(options: Namespace) -> int:
    from monkeytree.wire.reading import parse_json

    from .runner import prepare, run_scenario

    scenario = parse_json(_read(options.scenario))
    with Teller(options.progress) as teller:
        prepare(teller.say)
        teller.say("running the scenario")
        result = run_scenario(
            scenario, timeout_s=options.timeout, on_progress=lambda part: teller.done(part, 1.0)
        )
    totals = result["totals"]
    if options.json is not None:
        _write(options.json, json.dumps(result, allow_nan=False) + "\n")
    if options.json != "-":
        print(" ".join(f"{name}={value}" for name, value in totals.items()))  # noqa: T201
    return ISOLATED if totals["finished"] else NOT_FINISHED


def _write_all(options: Namespace, document: dict[str, Any], found: Any) -> None:
    from rich.console import Console

    from .junit import junit
    from .plot import plot
    from .table import print_report

    texts: list[tuple[str, str]] = []
    if options.json is not None:
        texts.append((options.json, json.dumps(document, indent=2, allow_nan=False) + "\n"))
    if options.junit is not None:
        texts.append((options.junit, junit(document).decode()))
    if options.plot is not None:
        texts.append((options.plot, plot(found, document["params"]["sample_us"])))
    texts.sort(key=lambda one: one[0] == "-")
    with ExitStack() as last_first:  # files, then standard output: a file that fails takes nothing along
        # A document on standard output stands there alone; the table then goes to standard error.
        taken = any(path == "-" for path, _ in texts)
        last_first.callback(print_report, Console(stderr=taken), document)
        last_first.callback(_end_with_reader)
        for path, text in reversed(texts):
            last_first.callback(_write, path, text)


def _end_with_reader() -> None:
    """From here on a reader that leaves early (head, less) ends the process, as with other Unix tools."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _read(path: str) -> bytes:
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def _write(path: str, text: str) -> None:
    if path == "-":
        _end_with_reader()
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:  # a full disk names no file of its own accord
            raise OSError(error.errno, error.strerror, path) from None


def _report(error: Exception) -> int:
    if isinstance(error, InvalidDocument):
        count = len(error.offences)
        said = [f"the {error.noun} has {count} offence{'s' if count > 1 else ''}:"]
        said += [f"  {o.pointer or '(all of it)'}: {o.message}, got {o.value!r}" for o in error.offences]
        _say(f"Error ({error.code}): " + "\n".join(said))
        return BAD_INPUT
    if isinstance(error, MonkeyTreeError):
        _say(f"Error ({error.code}): {error}")
        return INTERNAL
    if isinstance(error, OSError) and error.filename is not None:
        _say(f"Error: cannot use {os.fsdecode(error.filename)}: {error.strerror}")
        return BAD_INPUT
    if os.environ.get("MONKEYTREE_DEBUG"):
        traceback.print_exception(error)
    _say(
        f"Internal error: {type(error).__name__}: {error}\n"
        "This is a bug: please report it with the input and what the same command prints under "
        "MONKEYTREE_DEBUG=1."
    )
    return INTERNAL


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201  # what a command line does


if __name__ == "__main__":
    sys.exit(main())
