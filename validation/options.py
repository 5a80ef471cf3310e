"""Options of ``python -m monkeytree.validation`` (those of ``monkeytree validate``)."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from .profiles import DEFAULT_PROFILE
from .traffic import DEFAULT_BYTES, Knobs


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse, or exit with code 2 and say why."""
    parser = argparse.ArgumentParser(
        prog="monkeytree validate",
        description="Replay the flows of a plan, or of a placement as it stands, packet by packet.",
        allow_abbrev=False,
    )
    parser.add_argument("snapshot", nargs="?", metavar="SNAPSHOT", help="a file, or - for standard input")
    parser.add_argument("plan", nargs="?", metavar="PLAN", help="a plan of that snapshot")
    parser.add_argument("--scenario", metavar="FILE", help="run one packet scenario as given instead")
    for name, what in (("json", "the report"), ("junit", "JUnit XML"), ("plot", "an SVG picture")):
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write {what} here (- is standard output)")
    add = parser.add_argument
    add("--profile", metavar="NAME", default=DEFAULT_PROFILE, help="named parameters (docs/validation.md)")
    add(
        "--set",
        action="append",
        default=[],
        type=_override,
        metavar="NAME=VALUE",
        help="override one of them",
    )
    add("--seed", type=_whole, default=1, metavar="N", help="of all draws (default 1)")
    add("--flow-mb", type=_above_zero, default=DEFAULT_BYTES / 1e6, metavar="MB",
        help="10^6 bytes of a flow whose group has no traffic_gb (default 20)")  # fmt: skip
    add("--scale", type=_above_zero, default=1.0, metavar="X", help="multiply the bytes of all flows")
    add(
        "--steps", type=_at_least_one, default=1, metavar="N", help="ring steps a flow is sent in (default 1)"
    )
    add(
        "--ecmp-share",
        type=_share,
        default=0.0,
        metavar="X",
        help="part of the flows left to hashed ECMP, 0 to 1",
    )
    add(
        "--background",
        type=_share,
        default=0.0,
        metavar="X",
        help="part of the racks with a storage-like flow",
    )
    add("--fail-link", action="append", default=[], type=_uplink, metavar="RACK:SPINE",
        help="an uplink that failed after planning; may be repeated")  # fmt: skip
    add(
        "--routing",
        choices=["steered", "hash"],
        default="steered",
        help="each flow on the plan's uplink (default), or where the switches' hash sends its source port",
    )
    add(
        "--ports",
        choices=["plan", "default"],
        default="plan",
        help="with --routing hash: the plan's source ports (default), or the kernel's own",
    )
    add("--together", action="store_true", help="one simulation, not one a group of flows that meet")
    add("--jobs", type=_at_least_one, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    add(
        "--timeout",
        type=_above_zero,
        default=600.0,
        metavar="S",
        help="seconds of each process (default 600)",
    )
    add("--progress", choices=["auto", "json", "none"], default="auto", help="what standard error is told")
    options = parser.parse_args(arguments)
    _check(parser, options)
    return options


def knobs(options: argparse.Namespace) -> Knobs:
    """What the options say about the traffic."""
    return Knobs(
        flow_bytes=max(1, round(options.flow_mb * 1e6)),
        scale=options.scale,
        ecmp_share=options.ecmp_share,
        background=options.background,
        dead=tuple(options.fail_link),
        seed=options.seed,
        steps=options.steps,
        routing=options.routing,
        ports=options.ports,
    )


def params(options: argparse.Namespace) -> dict[str, Any]:
    """``params`` of every scenario."""
    return {"profile": options.profile, "seed": options.seed, **dict(options.set)}


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if (options.snapshot is None) == (options.scenario is None):
        parser.error("give either a SNAPSHOT (and perhaps its PLAN) or --scenario FILE")
    if options.scenario is not None and (options.junit or options.plot):
        parser.error("--junit and --plot need a SNAPSHOT: a scenario as given has no verdict")
    for name in ("json", "junit", "plot"):
        _check_output(parser, name, getattr(options, name))
    if options.plot not in (None, "-") and not options.plot.lower().endswith(".svg"):
        parser.error(f"--plot writes SVG: name a file that ends in .svg, not {options.plot!r}")
    if options.snapshot == options.plan == "-":
        parser.error("only one of SNAPSHOT and PLAN can be - (standard input)")
    if [options.json, options.junit, options.plot].count("-") > 1:
        parser.error("only one of --json, --junit and --plot can be - (standard output)")


def _check_output(parser: argparse.ArgumentParser, name: str, path: str | None) -> None:
    """Before the replay, not after it: whether a file can be made there."""
    if path in (None, "-"):
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        parser.error(f"--{name} cannot be written to {path!r}")


def _override(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name or name in ("profile", "seed"):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE (profile and seed have their options)")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _uplink(text: str) -> tuple[str, int]:
    rack, _, spine = text.rpartition(":")
    if not rack or not spine.isascii() or not spine.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no RACK:SPINE, such as r1:0")
    return rack, int(spine)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number up to 1e9")
    return value


def _above_zero(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share from 0 to 1")
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no integer from 0 to 999999999")
    return int(text)


def _at_least_one(text: str) -> int:
    return max(1, _whole(text))
