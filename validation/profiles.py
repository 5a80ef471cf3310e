"""Named sets of parameters of the packet-level model, with units and sources.

``dcqcn`` (ours, the default) and ``pfc_only`` model a present RoCEv2 fabric. The other names are the
settings under which a public simulator, HPCC (alibaba-edu/High-Precision-Congestion-Control 9f4be2a,
on ns-3.18), was run; with them its runs can be repeated (docs/fidelity.md).

Any parameter may be overridden beside ``profile`` in a scenario's ``params``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_PROFILE = "dcqcn"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name in ``params``, default (profile ``dcqcn``), unit, meaning and source."""

    name: str
    default: float
    unit: str
    meaning: str
    source: str
    least: float = 0.0
    most: float = 1e15


def _parameter(
    name: str, default: float, unit: str, meaning: str, source: str, least: float = 0.0, most: float = 1e15
) -> Parameter:
    # In picoseconds, 64 bits hold 100 days.
    return Parameter(name, default, unit, meaning, source, least, 1e9 if unit == "us" else most)


_IB = "InfiniBand Architecture Specification, annexes A16, A17"
_DCQCN = "Zhu et al., SIGCOMM 2015"
_HPCC = "HPCC configuration at 100 Gb/s"
_NIC = "ConnectX firmware default"

PARAMETERS: tuple[Parameter, ...] = (
    _parameter("payload_bytes", 4096, "B", "payload of a full frame", "largest RoCE MTU", 1, 65536),
    _parameter("header_bytes", 62, "B", "Ethernet 14, IP 20, UDP 8, BTH 12, ICRC 4, FCS 4", _IB, 0, 1024),
    _parameter("wire_overhead_bytes", 20, "B", "preamble and gap, on the wire only", "IEEE 802.3", 0, 1024),
    _parameter("truncate_ns", 0, "flag", "cut wire times to whole ns, as HPCC does", "exact: ps", 0, 1),
    _parameter("ack_bytes", 66, "B", "size of an ACK or NACK", _IB, 1, 65536),
    _parameter("ack_every", 16, "frames", "data frames per ACK (the last always gets one)", "ours", 1, 1e9),
    _parameter("ack_host_class", 0, "class", "class whose pause holds ACKs in hosts; 0 none", "ours", 0, 7),
    _parameter("ack_fabric_class", 3, "class", "class of ACKs in switches; 0 is strict", "as data", 0, 7),
    _parameter("cnp_bytes", 78, "B", "size of a CNP", _IB, 1, 65536),
    _parameter("cnp_in_ack", 0, "flag", "carry the CNP as a bit of the ACK", "RoCEv2 sends packets", 0, 1),
    _parameter("cnp_interval_us", 50, "us", "least time between CNPs of a flow", _DCQCN),
    _parameter("priority", 3, "class", "class of flows that name none", "usual lossless class", 1, 7),
    _parameter(
        "rto_us", 16000, "us", "go back after so long without an ACK; 0 never", "16 frames at 100 Mb/s"
    ),
    _parameter("nack_interval_us", 500, "us", "least time between NACKs for one gap", _HPCC),
    _parameter(
        "window_bdp", 0, "BDP", "bytes in flight, of the longest round trip; 0 no window", "off", 0, 1e6
    ),
    _parameter("window_variable", 1, "flag", "scale the window with the rate", _HPCC, 0, 1),
    _parameter("udp_port", 4791, "port", "destination port that ECMP hashes", "IANA", 0, 65535),
    _parameter("ecmp_seed", 0, "", "varies the hash of every switch", "ours", 0, 2**32 - 1),
    _parameter("seed", 1, "", "run of the random streams (RngRun)", "ours", 0, 2**53),
    _parameter("pfc", 1, "flag", "send PAUSE; without it a full buffer drops", "IEEE 802.1Qbb", 0, 1),
    _parameter("pfc_bytes", 64, "B", "size of a PFC frame", "IEEE 802.1Qbb", 1, 65536),
    _parameter("pause_us", 0, "us", "life of a PAUSE, refreshed at half of it; 0 until XON", _HPCC),
    _parameter("buffer_bytes", 32 << 20, "B", "packet memory per switch", _HPCC, 1),
    _parameter("reserve_bytes", 4096, "B", "set aside per port", _HPCC),
    _parameter("xon_offset_bytes", 3072, "B", "below the threshold for XON", _HPCC),
    _parameter("alpha", 0.125, "", "threshold of a class / free shared buffer", _HPCC, 1e-6, 1024),
    _parameter("alpha_by_rate", 0, "flag", "double alpha per doubling over the host rate", _HPCC, 0, 1),
    _parameter("headroom_bdp", 2, "BDP", "headroom in rate x one-way delay", "one round trip", 0, 1e3),
    _parameter("headroom_extra_bytes", 16384, "B", "added: frames under way at both ends", "ours", 0, 2**31),
    _parameter("ecn", 1, "flag", "mark frames at dequeue", _DCQCN, 0, 1),
    _parameter("kmin_bytes", 100e3, "B per 100 Gb/s", "queue above which frames are marked", "conweave-ns3"),
    _parameter("kmax_bytes", 400e3, "B per 100 Gb/s", "queue above which all are marked", "conweave-ns3"),
    _parameter("pmax", 0.2, "", "probability of a mark at kmax", _HPCC, 0, 1),
    _parameter("dcqcn", 1, "flag", "senders react to CNPs", _DCQCN, 0, 1),
    _parameter("g", 1 / 256, "", "gain of alpha (of the rate, not of the buffer)", _DCQCN, 0, 1),
    _parameter("alpha_by_timer", 0, "flag", "alpha rises by timer, not by CNP", _DCQCN, 0, 1),
    _parameter("alpha_timer_us", 55, "us", "period of alpha's decay", _DCQCN, 1e-6),
    _parameter("cut_timer_us", 0, "us", "period of rate cuts; 0 at each CNP", _DCQCN),
    _parameter("rise_timer_us", 55, "us", "period of rate increase", _DCQCN, 1e-6),
    _parameter("byte_counter_bytes", 0, "B", "increase per bytes sent; 0 off", "off, as deployed"),
    _parameter("stages", 5, "", "F, steps of fast recovery", _DCQCN, 0, 1e6),
    _parameter("ai_mbps", 40, "Mb/s", "additive increase", _DCQCN),
    _parameter("hai_mbps", 400, "Mb/s", "hyper increase", _DCQCN),
    _parameter("min_rate_mbps", 100, "Mb/s", "least rate", _HPCC, 1e-3),
    _parameter("clamp", 0, "flag", "lower the target at every cut", _NIC, 0, 1),
    _parameter("sample_us", 0, "us", "sample all ports so often; 0 not", "ours"),
    _parameter("fast_forward", 0, "flag", "skip what is steady and free; not with `sample_us`", "ours", 0, 1),
    _parameter("stop_us", 0, "us", "bound of simulated time; 0 is worked out", "ours"),
)

BY_NAME: dict[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}

# What all runs of HPCC share: packet-level conventions of its simulator, not of a NIC.
_REFERENCE: dict[str, float] = {
    "payload_bytes": 1003,
    "header_bytes": 48,
    "wire_overhead_bytes": 0,
    "ack_bytes": 60,
    "ack_every": 1,
    "cnp_in_ack": 1,
    "cnp_interval_us": 0,
    "rto_us": 16000,  # HPCC has none; too long to fire in a lossless run
    "udp_port": 100,
    "alpha_by_rate": 1,
    "headroom_bdp": 3,
    "headroom_extra_bytes": 0,
    "kmin_bytes": 400e3,
    "kmax_bytes": 1600e3,
    "alpha_by_timer": 1,
    "alpha_timer_us": 1,
    "cut_timer_us": 4,
    "rise_timer_us": 300,
    "stages": 1,
    "ai_mbps": 20,
    "hai_mbps": 200,
    "min_rate_mbps": 1000,
}
_PAPER: dict[str, float] = {"alpha_timer_us": 50, "cut_timer_us": 50, "rise_timer_us": 55}
_PAPER_F5: dict[str, float] = {
    "alpha_timer_us": 55,
    "cut_timer_us": 50,
    "rise_timer_us": 55,
    "stages": 5,
    "ai_mbps": 40,
    "hai_mbps": 400,
    "min_rate_mbps": 100,
}
_SMALL: dict[str, float] = {"buffer_bytes": 2 << 20}
_NO_DCQCN: dict[str, float] = {"ecn": 0, "dcqcn": 0}

_REFERENCE_PROFILES: dict[str, dict[str, float]] = {
    "hpcc": {},
    "paper": _PAPER,
    "paper_f5": _PAPER_F5,
    "hpcc_win": {"window_bdp": 1, "ack_host_class": 3},
    "paper_lowk": {**_PAPER, "kmin_bytes": 100e3, "kmax_bytes": 400e3},
    "small": _SMALL,
    "paper_small": {**_PAPER, **_SMALL},
    "pfconly": _NO_DCQCN,
    "pfconly_small": {**_NO_DCQCN, **_SMALL},
    "hpcc_p1000": {"payload_bytes": 1000},
}
_SUFFIXES: dict[str, dict[str, float]] = {
    "": {},
    "_clamp": {"clamp": 1},
    "_mtu4000": {"payload_bytes": 4003},
    "_clamp_mtu4000": {"clamp": 1, "payload_bytes": 4003},
}

PROFILES: dict[str, dict[str, float]] = {
    "dcqcn": {},
    "pfc_only": dict(_NO_DCQCN),
    **{
        name + suffix: {**_REFERENCE, **values, **more}
        for name, values in _REFERENCE_PROFILES.items()
        for suffix, more in _SUFFIXES.items()
    },
}


def parameter_table() -> str:
    """All parameters as a table in Markdown, with their defaults; docs/validation.md holds it."""
    lines = ["| parameter | default | unit | meaning | source |", "|---|---|---|---|---|"]
    lines += [f"| `{p.name}` | {p.default:.10g} | {p.unit} | {p.meaning} | {p.source} |" for p in PARAMETERS]
    return "\n".join(lines) + "\n"


def profile_table() -> str:
    """What each profile sets otherwise, as a table in Markdown; suffixes left out."""
    lines = ["| profile | sets |", "|---|---|", "| `dcqcn` | the defaults |"]
    lines.append(f"| `pfc_only` | {_listed(_NO_DCQCN)} |")
    lines.append(f"| `hpcc` | {_listed(_REFERENCE)} |")
    others = {name: values for name, values in _REFERENCE_PROFILES.items() if values}
    lines += [f"| `{name}` | as `hpcc`, {_listed(values)} |" for name, values in others.items()]
    return "\n".join(lines) + "\n"


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.10g}" for name, value in values.items())


def resolve(params: Mapping[str, Any]) -> dict[str, float]:
    """All parameters by name: the profile's, with the other members of ``params`` put over them.

    ``params`` is taken as checked (:func:`monkeytree.validation.scenario_document.read_scenario`).
    """
    values = {parameter.name: parameter.default for parameter in PARAMETERS}
    values |= PROFILES[params.get("profile", DEFAULT_PROFILE)]
    values |= {name: float(value) for name, value in params.items() if name != "profile"}
    return values
