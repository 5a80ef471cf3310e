"""Slots promised to executions, and how planning works around them.

A reservation is a step of an execution that has not ended: its worker has arrived, or will.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from sqlalchemy import Connection, select

from monkeytree.snapshot import Planning, Snapshot

from .again import again
from .executions_rows import LIVE, StepState
from .rows import Part, planning_hash
from .tables import execution_steps, executions


@dataclass(frozen=True, slots=True)
class Reservation:
    """``slots`` of ``node`` for one rank of a group, until ``execution_id`` ends.

    ``state`` is that of the step: ``done`` where the worker has arrived.
    """

    execution_id: str
    cluster: str
    number: int
    job: str
    group: str
    rank: int
    node: str
    slots: int
    state: StepState


class Reservations(Part):
    """Reads reservations; ``store.executions`` makes them."""

    @again
    def reservations(self, clusters: Collection[str] | None = None) -> tuple[Reservation, ...]:
        """Those of ``clusters``, None meaning all; by execution and step."""
        with self.reading() as connection:
            return read_reservations(connection, clusters)


def read_reservations(
    connection: Connection, clusters: Collection[str] | None = None
) -> tuple[Reservation, ...]:
    """As :meth:`Reservations.reservations`, inside a transaction."""
    step = execution_steps.c
    query = select(
        step.execution_id, executions.c.cluster, step.number, step.job, step.group, step.rank,
        step.target.label("node"), step.slots, step.state,
    ).join(executions, executions.c.id == step.execution_id)  # fmt: skip
    query = query.where(executions.c.state.in_(LIVE) & (step.kind == "move"))
    if clusters is not None:
        query = query.where(executions.c.cluster.in_(clusters))
    rows = connection.execute(query.order_by(step.execution_id, step.number))
    return tuple(Reservation(**row._mapping) for row in rows)


def planning_key(planning: Planning, reservations: Sequence[Reservation]) -> str:
    """What says that two plans of a snapshot are the same: the options, and the reservations it works around.

    Which steps are done does not count: a worker that has arrived is in the snapshot, or is still promised.
    """
    plain = planning_hash(planning)
    if not reservations:
        return plain
    named = "\n".join(f"{one.execution_id} {one.number}" for one in reservations)
    return sha256(f"{plain}\n{named}".encode()).hexdigest()


def hold(snapshot: Snapshot, reservations: Sequence[Reservation]) -> tuple[Snapshot, dict[str, int]]:
    """``snapshot`` with the promised slots ``held``, and how many were on each node.

    A worker that the snapshot shows on its target fills its reservation. Where the target's slots are still
    occupied (their worker leaves in the same wave) only the free ones can be held.
    """
    free = _free_slots(snapshot)
    wanted: Counter[str] = Counter()
    for one in reservations:
        if one.node in free and not _arrived(snapshot, one):
            wanted[one.node] += one.slots
    held = {node: min(slots, free[node]) for node, slots in wanted.items() if min(slots, free[node]) > 0}
    if not held:
        return snapshot, {}
    racks = tuple(
        replace(
            rack,
            nodes=tuple(
                replace(node, held=node.held + held[node.id]) if node.id in held else node
                for node in rack.nodes
            ),
        )
        for rack in snapshot.racks
    )
    return replace(snapshot, racks=racks), dict(sorted(held.items()))


def _arrived(snapshot: Snapshot, reservation: Reservation) -> bool:
    for job, group in snapshot.groups:
        if (job.id, group.id) == (reservation.job, reservation.group):
            workers = group.workers
            return reservation.rank < len(workers) and workers[reservation.rank] == reservation.node
    return False


def _free_slots(snapshot: Snapshot) -> Mapping[str, int]:
    occupied: Counter[str] = Counter()
    for _, group in snapshot.groups:
        for node in group.workers:
            occupied[node] += group.slots_per_worker
    return {node_id: node.usable - occupied[node_id] for node_id, node in snapshot.node_by_id.items()}
