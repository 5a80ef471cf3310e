"""Packets sprayed over a fabric of full bisection: nobody ever shares, the ideal."""

from __future__ import annotations

from collections.abc import Sequence

from ..fabrics import Fabric, Path
from ..running import Running


class Spray:
    """No flow crosses a link that could hold it up."""

    def route(self, jobs: Sequence[Running], fabric: Fabric) -> list[tuple[Path, ...]]:
        """See :class:`~.protocol.Router`."""
        return [((),) * len(job.wiring.demands) for job in jobs]
