"""What a routing system answers: the path of each flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from monkeytree.fluid import Flow, Network

from ..fabrics import Fabric, Path

if TYPE_CHECKING:
    from ..running import Demand, Running


class Router(Protocol):
    """Chooses paths when jobs start, end or move."""

    def route(self, jobs: Sequence[Running], fabric: Fabric) -> list[tuple[Path, ...]]:
        """A path for each demand of each job, in the order given; ``paths`` hold those of before."""
        ...


@runtime_checkable
class DynamicRouter(Protocol):
    """Chooses the path of a flow when it starts, and may move it while it runs.

    Attributes:
        period_us: how often flows may be moved.
    """

    period_us: int

    def choose(self, demand: Demand, job: int, fabric: Fabric, net: Network) -> Path:
        """The path of a flow that starts now."""
        ...

    def move(self, flow: Flow, fabric: Fabric, net: Network) -> Path | None:
        """A better path for a flow that runs; None to leave it."""
        ...


@runtime_checkable
class Shifter(Protocol):
    """Puts iterations off so that jobs on the same links send in turn; a router as well."""

    def shift(self, jobs: Sequence[Running], now: int, nic_gbps: float) -> None:
        """Set ``hold_us`` of jobs whose surroundings have changed."""
        ...
