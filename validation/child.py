"""``python -m monkeytree.validation.child [FILE]``: one scenario in (a file, or standard input), its
result out (standard output). ns-3 ends its process at the first thing it dislikes, and holds one
simulation; so each run has a process of its own.

Exit codes: 0 done (``finished`` says whether all flows ended), 2 the scenario is not in order, 3 the
simulator cannot be used here; both with ``{"error": {...}}`` on standard output. Anything else is a
crash. Lines of JSON on standard error: ``{"ready": true}`` once ns-3 is loaded, then
``{"progress": 0.42}`` twice a second when asked by ``--progress``. With ``--attached`` it ends with its
parent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monkeytree.errors import InvalidDocument

from .errors import InvalidScenario, ValidationUnavailable
from .scenario_document import PacketScenario, read_scenario

INVALID, UNAVAILABLE = 2, 3
PROGRESS_S = 0.5
_OWN = ("priority", "stop_us")  # parameters that are not the native model's


def main(arguments: list[str]) -> int:
    """Run one scenario."""
    out = _keep_stdout()
    progress = "--progress" in arguments
    if "--attached" in arguments:
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    files = [argument for argument in arguments if not argument.startswith("--")]
    text = sys.stdin.buffer.read() if not files or files[0] == "-" else Path(files[0]).read_bytes()
    try:
        document, code = simulate(read_scenario(json.loads(text)), tell, progress=progress), 0
    except InvalidDocument as error:
        offences = [{"pointer": o.pointer, "message": o.message, "value": o.value} for o in error.offences]
        document, code = {"error": {"code": error.code, "offences": offences}}, INVALID
    except ValueError as error:
        offences = [{"pointer": "", "message": f"is not JSON: {error}", "value": None}]
        document, code = {"error": {"code": InvalidScenario.code, "offences": offences}}, INVALID
    except ValidationUnavailable as error:
        document, code = {"error": {"code": error.code, "message": str(error)}}, UNAVAILABLE
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        json.dump(document, stream, allow_nan=False)
    return code


def _end_with(parent: int) -> None:
    """A killed parent must not leave hours of simulation behind."""
    while os.getppid() == parent:
        time.sleep(PROGRESS_S)
    os._exit(1)


def _keep_stdout() -> int:
    """Standard output for the result alone; what libraries print goes to standard error."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def simulate(
    scenario: PacketScenario, say: Callable[[str, Any], None] | None = None, *, progress: bool = False
) -> dict[str, Any]:
    """Run a scenario in this process, and return the result document (format 1).

    ``say`` is called with ("ready", True) once ns-3 is loaded, and if ``progress`` with
    ("progress", part) twice a second.

    Raises:
        InvalidScenario: the native model refuses it (no way between hosts, no shared buffer left).
        ValidationUnavailable: ns-3 cannot be loaded.
    """
    from . import binding

    native = binding.load()
    if say is not None:
        say("ready", True)
    try:
        replay = _build(native, scenario)
    except Exception as error:
        if type(error).__name__ != "invalid_argument":
            raise
        raise InvalidScenario([_offence(str(error))]) from None
    if scenario.flows:
        with _Reporter(replay, say if progress else None):
            replay.Run(_stop_ns(scenario))
    return _result(replay, scenario)


def _build(native: Any, scenario: PacketScenario) -> Any:
    from .binding import int_vector

    replay = native.Replay(scenario.hosts, int_vector(scenario.switches))
    for name, value in scenario.parameters.items():
        if name not in _OWN:
            replay.Set(name, value)
    for link in scenario.links:
        replay.AddLink(*link)
    replay.Build()
    for flow in scenario.flows:
        ways = (int_vector(way) for way in (flow.path, flow.ack_path, flow.after))
        replay.AddFlow(flow.src, flow.dst, flow.size, flow.start_ns, *ways, flow.priority)
    return replay


def _offence(said: str) -> Any:
    from monkeytree.errors import Offence

    message = said.split("=>", 1)[-1].strip().removeprefix("invalid_argument:").strip()
    return Offence("", message, None)


def _stop_ns(scenario: PacketScenario) -> float:
    """The bound of simulated time: far above any run that gets on, so that one that does not ends."""
    given = scenario.parameters["stop_us"]
    if given:
        return given * 1e3
    slowest_gbps = min(link[2] for link in scenario.links)
    serial_ns = sum(flow.size for flow in scenario.flows) * 8 / slowest_gbps
    return max(flow.start_ns for flow in scenario.flows) + 1e8 + 30 * serial_ns


def _result(replay: Any, scenario: PacketScenario) -> dict[str, Any]:
    outcomes = [replay.GetFlow(index) for index in range(len(scenario.flows))]
    flows: list[dict[str, Any]] = []
    for flow, outcome in zip(scenario.flows, outcomes, strict=True):
        row: dict[str, Any] = {
            "id": flow.id,
            "fct_ns": _ns(outcome.fct_ns),
            "bytes": flow.size,
            "retransmits": int(outcome.retransmits),
            "cnps": int(outcome.cnps),
        }
        if flow.after:
            row["start_ns"] = _ns(outcome.start_ns)
        flows.append(row)
    ports = [replay.GetPort(index) for index in range(replay.GetPortCount())]
    totals = replay.GetTotals()
    document: dict[str, Any] = {
        "format": 1,
        "flows": flows,
        "ports": [_port(port) for port in ports],
        "totals": {
            "pauses": sum(int(port.pauses_sent) for port in ports),
            "ecn_marks": sum(int(port.ecn_marks) for port in ports),
            "drops": sum(int(port.drops) for port in ports),
            "events": int(totals.events),
            "cpu_s": round(totals.cpu_s, 6),
            "finished": bool(totals.finished),
            **_skipped(scenario, totals),
        },
    }
    if scenario.parameters["sample_us"]:
        document["samples"] = _samples(replay, scenario, ports)
    return document


def _skipped(scenario: PacketScenario, totals: Any) -> dict[str, Any]:
    if not scenario.parameters["fast_forward"]:
        return {}
    return {"skipped_ns": _ns(totals.skipped_ns), "skips": int(totals.skips)}


def _port(port: Any) -> dict[str, Any]:
    names = (
        "node", "peer", "pauses_sent", "pauses_received", "paused_ns", "ecn_marks", "max_queue_bytes",
        "max_ingress_bytes", "headroom_bytes",
    )  # fmt: skip
    row: dict[str, Any] = {name: int(getattr(port, name)) for name in names}
    row["paused_ns"] = _ns(port.paused_ns)
    return row


def _samples(replay: Any, scenario: PacketScenario, ports: list[Any]) -> dict[str, Any]:
    series = []
    for index, port in enumerate(ports):
        sent = [int(value) for value in replay.GetSentSamples(index)]
        if sent and sent[-1]:
            queue = [int(value) for value in replay.GetQueueSamples(index)]
            series.append({"node": port.node, "peer": port.peer, "sent_bytes": sent, "queue_bytes": queue})
    return {"interval_us": scenario.parameters["sample_us"], "ports": series}


def _ns(value: float) -> float | int | None:
    if value < 0:
        return None
    return int(value) if float(value).is_integer() else float(value)


def tell(name: str, value: Any) -> None:
    """A line of JSON on standard error."""
    sys.stderr.write(json.dumps({name: value}) + "\n")
    sys.stderr.flush()


class _Reporter:
    """Tells the progress of a run from a thread beside it."""

    def __init__(self, replay: Any, say: Callable[[str, Any], None] | None) -> None:
        self._replay = replay
        self._say = say or (lambda name, value: None)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._report, daemon=True) if say else None

    def _report(self) -> None:
        while not self._over.wait(PROGRESS_S):
            self._say("progress", round(self._replay.GetProgress(), 4))

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._say("progress", round(self._replay.GetProgress(), 4))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # the libraries' own tear-down adds time and nothing else
