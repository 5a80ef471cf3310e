"""What a packet-level replay may be asked for, by name, and how that is said on its command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from monkeytree.limits import Real, Whole

SEED = Whole(0, 999_999_999)
FLOW_MB = Real(0.0, 1e6, open=True)
SCALE = Real(0.0, 1e6, open=True)
SHARE = Real(0.0, 1.0)
STEPS = Whole(1, 1000)
TIMEOUT_S = Real(0.0, 86_400.0, open=True)
MAX_FAILED_LINKS = 1000
ROUTING = ("steered", "hash")
PORTS = ("plan", "default")
#: Settings of HPCC's runs, each also with its clamp, its MTU, or both (docs/validation.md).
_REFERENCE = (
    "hpcc", "paper", "paper_f5", "hpcc_win", "paper_lowk", "small", "paper_small", "pfconly", "pfconly_small",
    "hpcc_p1000",
)  # fmt: skip
PROFILES = (
    "dcqcn",
    "pfc_only",
    *(name + variant for name in _REFERENCE for variant in ("", "_clamp", "_mtu4000", "_clamp_mtu4000")),
)
"""Names of the profiles that the validation has (tested to be the same)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of ``monkeytree validate`` (docs/contract.md, section 6), with its defaults.

    Attributes:
        profile: name of the parameters of switches and NICs.
        flow_mb: 10^6 bytes of a flow whose group names no ``traffic_gb``.
        scale: factor on the bytes of all flows.
        ecmp_share: share of the flows left to hashes; background: share of racks that send storage traffic.
        routing: ``steered``: each flow on the plan's uplink; ``hash``: where the switches' ``fabric.hash``
            sends its source port. ports: with ``hash``, those of the plan, or ``default``: the kernel's.
        fail_link: uplinks that fail after planning, each ``RACK:SPINE``.
        timeout_s: seconds the replay may take.
    """

    profile: str = "dcqcn"
    seed: int = 1
    flow_mb: float = 20.0
    scale: float = 1.0
    ecmp_share: float = 0.0
    background: float = 0.0
    routing: str = "steered"
    ports: str = "plan"
    fail_link: tuple[str, ...] = ()
    steps: int = 1
    timeout_s: float = 600.0

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "fail_link": list(self.fail_link)}

    def text(self) -> str:
        """Canonical JSON."""
        return orjson.dumps(self.document(), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_text(cls, text: str) -> ReplayOptions:
        """The inverse of :meth:`text`."""
        values = orjson.loads(text)
        return cls(**{**values, "fail_link": tuple(values["fail_link"])})

    def arguments(self) -> list[str]:
        """Arguments of ``python -m monkeytree.validation``; with ``=`` no value passes for an option."""
        words = [f"--fail-link={link}" for link in self.fail_link]
        for name, value in self.document().items():
            if name not in ("fail_link", "timeout_s"):
                words.append(f"--{name.replace('_', '-')}={value}")
        return [*words, f"--timeout={self.timeout_s}"]
