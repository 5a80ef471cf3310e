"""A report as JUnit XML, for CI systems: one test a cross-rack flow, the controls as properties."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

Document = dict[str, Any]

# XML 1.0 has no way to write these, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Document) -> bytes:
    """The document of :func:`~monkeytree.validation.report.report` as JUnit XML, UTF-8."""
    flows = report["flows"]
    failed = [flow for flow in flows if not flow["isolated"]]
    general = [] if failed or report["isolated"] else report["reasons"]
    counts = {"tests": str(len(flows) + 1), "failures": str(len(failed) + bool(general)), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "monkeytree validate", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": f"isolation of {report['cluster']}", **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(report):
        ElementTree.SubElement(properties, "property", {"name": clean(name), "value": clean(value)})
    for flow in flows:
        case = ElementTree.SubElement(suite, "testcase", _case(flow))
        if not flow["isolated"]:
            message = clean(_failure(flow, report["slowdown_limit"], planned=report["plan_id"] is not None))
            ElementTree.SubElement(
                case, "failure", {"message": message, "type": "not_isolated"}
            ).text = message
    whole = ElementTree.SubElement(suite, "testcase", {"classname": "fabric", "name": "nothing is lost"})
    if general:
        message = clean("; ".join(general))
        ElementTree.SubElement(whole, "failure", {"message": message, "type": "not_isolated"}).text = message
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(flow: Document) -> dict[str, str]:
    uplink = "no uplink" if flow["uplink"] is None else f"uplink {flow['uplink']}"
    racks = f"{flow['from_rack']} to {flow['to_rack']}"
    name = f"ring {flow['ring']}: {racks}, {uplink}, ranks {flow['from_rank']} to {flow['to_rank']}"
    seconds = (flow["fct_ns"] or 0.0) / 1e9
    return {
        "classname": clean(f"{flow['job']}.{flow['group']}"),
        "name": clean(name),
        "time": f"{seconds:.9f}",
    }


def _failure(flow: Document, limit: float, *, planned: bool) -> str:
    said = []
    if flow["slowdown"] is None:
        said.append("it did not end" if flow["uplink"] is not None else "no live way leads there")
    elif flow["slowdown"] > limit:
        said.append(f"{flow['slowdown']:.3f} times slower than its job alone (at most {limit})")
    if flow["paused"]:
        said.append("PFC paused a port on its way")
    if flow["retransmits"]:
        said.append(f"{flow['retransmits']} packets were sent again")
    if not flow["steered"]:
        said.append("it was left to the switches' hash")
    elif planned and not flow["claimed"]:
        said.append("the plan does not claim it isolated")
    return "; ".join(said)


def _properties(report: Document) -> list[tuple[str, str]]:
    rows = [("snapshot_id", report["snapshot_id"]), ("plan_id", str(report["plan_id"]))]
    for name, run in report["runs"].items():
        worst = run["slowdown"]["max"]
        rows += [
            (f"{name}.isolated_flows", f"{run['isolated_flows']} of {run['cross_rack_flows']}"),
            (f"{name}.slowdown_max", "none" if worst is None else f"{worst:.4f}"),
            (f"{name}.pauses", str(run["pauses"])),
            (f"{name}.drops", str(run["drops"])),
        ]
    return rows


def clean(text: str) -> str:
    """``text`` with what XML cannot carry replaced."""
    return _FORBIDDEN.sub("\ufffd", text)
