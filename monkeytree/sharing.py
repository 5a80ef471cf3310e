"""How much longer a group's flows are expected to take at a leaf, by what the routing does there.

``steered`` folds f flows evenly on u uplinks: f mod u of them carry one flow more than the others.
``ecmp`` hashes: of the other f - 1 flows a binomial number, each with chance 1 / u, lands beside a flow.
``adaptive`` spreads evenly at every instant, as if the uplinks were one of their summed rate.
"""

from __future__ import annotations

from math import exp, lgamma, log

from .snapshot import Routing

_TAIL = 1e-12
"""Chance left of more neighbours than those counted, where counting ends."""


def may_share(routing: Routing, flows: int, uplinks: int, per_uplink: int) -> bool:
    """Whether ``flows`` flows can meet on ``uplinks`` uplinks of ``per_uplink`` NIC rates each."""
    return flows > per_uplink if routing == "ecmp" and uplinks else flows > uplinks * per_uplink


def stretch(routing: Routing, own: int, flows: int, uplinks: int, per_uplink: int, busy: float) -> float:
    """Expected time that sharing adds to the sending of a group, as a part of that time.

    A group is done when the last of its flows is, so its luckless flow counts.

    Args:
        own: flows of the group at this leaf.
        flows: all flows there, f_t of the paper.
        uplinks: live uplinks, at least one.
        per_uplink: k, NIC rates an uplink carries.
        busy: chance that another flow sends while one of this group does.
    """
    if not may_share(routing, flows, uplinks, per_uplink):
        return 0.0
    if routing == "adaptive":
        return _delay(flows - 1, uplinks * per_uplink, busy)
    if routing == "ecmp":
        return _hashed(own, flows, uplinks, per_uplink, busy)
    return _folded(own, flows, uplinks, per_uplink, busy)


def _folded(own: int, flows: int, uplinks: int, per_uplink: int, busy: float) -> float:
    """Any of ``own`` flows may be on an uplink with one flow more: drawn without replacement."""
    fewer, with_more = divmod(flows, uplinks)
    at_ease = flows - with_more * (fewer + 1)
    luck = exp(_log_ways(at_ease, own) - _log_ways(flows, own)) if own <= at_ease else 0.0
    least = _delay(max(0, fewer - 1), per_uplink, busy)
    return least + (1 - luck) * (_delay(fewer, per_uplink, busy) - least)


def _hashed(own: int, flows: int, uplinks: int, per_uplink: int, busy: float) -> float:
    """Expectation over the most neighbours that any of ``own`` flows has."""
    if uplinks == 1:
        return _delay(flows - 1, per_uplink, busy)
    on, off = -log(uplinks), log(1 - 1 / uplinks)
    at_most, known, expected = 0.0, 0.0, 0.0
    for neighbours in range(flows):
        at_most += exp(_log_ways(flows - 1, neighbours) + neighbours * on + (flows - 1 - neighbours) * off)
        most = min(1.0, at_most) ** own
        expected += (most - known) * _delay(neighbours, per_uplink, busy)
        known = most
        if 1 - known < _TAIL:
            break
    return expected


def _delay(neighbours: int, rates: int, busy: float) -> float:
    """E[max(0, (1 + active) / rates - 1)], each neighbour active with the chance ``busy``."""
    if rates == 1 or busy in (0.0, 1.0):
        return max(0.0, (1 + neighbours * busy) / rates - 1)
    on, off = log(busy), log(1 - busy)
    expected = 0.0
    for active in range(rates, neighbours + 1):
        chance = exp(_log_ways(neighbours, active) + active * on + (neighbours - active) * off)
        expected += chance * ((1 + active) / rates - 1)
    return expected


def _log_ways(things: int, taken: int) -> float:
    """ln of the number of ways to take some of many things."""
    return lgamma(things + 1) - lgamma(taken + 1) - lgamma(things - taken + 1)
