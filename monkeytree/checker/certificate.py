"""The certificate of a plan: does it prove that no plan has fewer moves?

A certificate claims ``bound``: no plan that meets all bounds and drains has fewer moves. It is checked
by assuming that ``bound`` - 1 moves are enough and following its refutation in integers, from the
snapshot alone. docs/solver-certificate.md has the format and the proofs. ``null`` claims nothing; kinds
that are not known here prove nothing and are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .certificate_halves import halves_refusal
from .certificate_tree import relaxation_refusal
from .fault import Fault, pointer_to, show
from .placement import Placement

Refusal = tuple[str, str]
"""A pointer within the certificate and why it proves nothing there."""

_KINDS: Mapping[str, Callable[[Mapping[str, Any], Placement, int, list[str]], Refusal | None]] = {
    "rack_halves": halves_refusal,
    "relaxation": relaxation_refusal,
}


def certificate_faults(plan: Mapping[str, Any], placement: Placement) -> Iterator[Fault]:
    """A certificate that does not prove its bound, or proves another than the plan's."""
    certificate = plan.get("certificate")
    if certificate is None:
        return
    if not isinstance(certificate, dict):
        yield _bad("", f"must be an object or null, is {show(certificate)}")
        return
    kind = certificate.get("kind")
    if type(kind) is not str or kind not in _KINDS:
        return
    bound, racks = certificate.get("bound"), certificate.get("racks")
    if type(bound) is not int or bound < 1:
        yield _bad("/bound", f"must be an integer of 1 or more, is {show(bound)}")
        return
    if bound != plan["lower_bound"]:
        message = f"proves {show(bound)} moves, the plan's lower bound is {plan['lower_bound']}"
        yield Fault("certificate_bound", pointer_to("certificate", "bound"), message)
    if plan["excess"] or plan["undrained"]:
        message = "proves a bound of plans that comply and drain all, this one does not"
        yield Fault("certificate_bound", pointer_to("certificate"), message)
    if not isinstance(racks, list | tuple) or not _known(racks, placement):
        yield _bad("/racks", f"must be an array of different racks of the snapshot, is {show(racks)}")
        return
    refusal = _KINDS[kind](certificate, placement, bound - 1, list(racks))
    if refusal is not None:
        yield _bad(*refusal)


def _known(racks: list[Any] | tuple[Any, ...], placement: Placement) -> bool:
    named = [rack for rack in racks if type(rack) is str and rack in placement.racks]
    return len(named) == len(racks) == len(set(named))


def _bad(where: str, message: str) -> Fault:
    return Fault("bad_certificate", pointer_to("certificate") + where, message)
