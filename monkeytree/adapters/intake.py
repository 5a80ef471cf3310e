"""The part of the store that takes snapshots in and asks for plans of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, or_, select, update

from monkeytree.snapshot import Planning

from .again import again
from .errors import StaleSnapshot, UnknownSnapshot
from .paging import Span, newest_first
from .reservations import planning_key, read_reservations
from .rows import (
    Page,
    Part,
    PlanRow,
    Receipt,
    SnapshotRow,
    new_id,
    pack,
    page_of,
    plan_row,
    planning_text,
    unpack,
)
from .tables import clusters, plans, snapshot_bodies, snapshots

ANSWERING = ("queued", "solving", "ready")


class Intake(Part):
    """Snapshots, and the plans they ask for."""

    @again
    def submit(
        self, arrival: SnapshotRow, body: bytes, planning: Planning, request_id: str | None = None
    ) -> Receipt:
        """Store a snapshot and queue a plan of it, or find the live or ready plan that answers.

        Older queued plans of the cluster become ``superseded``: older by ``sequence`` where both
        have one, else by ``taken_at``, then by arrival. All in one transaction.

        Raises:
            StaleSnapshot: its ``sequence`` is lower than the cluster's newest.
        """
        with self.writing() as connection:
            self._enter(connection, arrival)
            self._keep_snapshot(connection, arrival, body)
            row, created = self._find_or_queue(connection, arrival, planning, request_id, what_if=False)
            superseded = self._supersede_older(connection, arrival, row.id)
        return Receipt(row, created, superseded)

    @again
    def ask(self, snapshot_id: str, planning: Planning, request_id: str | None = None) -> Receipt:
        """Queue a what-if plan of a stored snapshot; newer snapshots do not supersede it.

        Raises:
            UnknownSnapshot: no such snapshot.
        """
        with self.writing() as connection:
            found = self._snapshot(connection, snapshot_id)
            row, created = self._find_or_queue(connection, found, planning, request_id, what_if=True)
        return Receipt(row, created)

    @again
    def snapshot(self, snapshot_id: str) -> SnapshotRow:
        """One snapshot's row.

        Raises:
            UnknownSnapshot: no such snapshot.
        """
        with self.reading() as connection:
            return self._snapshot(connection, snapshot_id)

    @again
    def snapshot_body(self, snapshot_id: str) -> bytes:
        """The document of a snapshot, as it was sent last.

        Raises:
            UnknownSnapshot: no such snapshot.
        """
        query = select(snapshot_bodies.c.body).where(snapshot_bodies.c.id == snapshot_id)
        with self.reading() as connection:
            body = connection.execute(query).scalar()
        if body is None:
            raise UnknownSnapshot(snapshot_id)
        return unpack(body)

    def clusters(self) -> tuple[str, ...]:
        """Names of all clusters that ever sent a snapshot."""
        with self.reading() as connection:
            return tuple(connection.execute(select(clusters.c.name).order_by(clusters.c.name)).scalars())

    @again
    def newest_snapshot(self, cluster: str) -> SnapshotRow | None:
        """The newest snapshot of a cluster: by ``sequence`` where it has one, else by ``taken_at``."""
        at = snapshots.c
        query = select(snapshots).where(at.cluster == cluster).limit(1)
        query = query.order_by(at.sequence.desc().nulls_last(), at.taken_at.desc(), at.received_at.desc())
        with self.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else SnapshotRow(**row._mapping)

    @again
    def list_snapshots(self, span: Span) -> Page:
        """Snapshots by ``taken_at``, newest first."""
        query = newest_first(snapshots, "taken_at", span)
        with self.reading() as connection:
            rows = [SnapshotRow(**row._mapping) for row in connection.execute(query)]
        return page_of(rows, span.limit, "taken_at")

    def _enter(self, connection: Connection, arrival: SnapshotRow) -> None:
        """Lock the cluster's row and refuse an older ``sequence``."""
        name = arrival.cluster
        connection.execute(self.insert(clusters).values(name=name).on_conflict_do_nothing())
        query = select(clusters.c.newest_sequence).where(clusters.c.name == name).with_for_update()
        newest = connection.execute(query).scalar()
        if arrival.sequence is None:
            return
        if newest is not None and arrival.sequence < newest:
            raise StaleSnapshot(name, arrival.sequence, newest)
        connection.execute(
            update(clusters).where(clusters.c.name == name).values(newest_sequence=arrival.sequence)
        )

    def _keep_snapshot(self, connection: Connection, arrival: SnapshotRow, body: bytes) -> None:
        """The same content again renews its times, sequence and document."""
        values = {name: getattr(arrival, name) for name in SnapshotRow.__slots__}
        statement = self.insert(snapshots).values(**values)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))
        packed = pack(body)
        statement = self.insert(snapshot_bodies).values(id=arrival.id, body=packed)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_={"body": packed}))

    def _snapshot(self, connection: Connection, snapshot_id: str) -> SnapshotRow:
        row = connection.execute(select(snapshots).where(snapshots.c.id == snapshot_id)).one_or_none()
        if row is None:
            raise UnknownSnapshot(snapshot_id)
        return SnapshotRow(**row._mapping)

    def _find_or_queue(
        self,
        connection: Connection,
        snapshot: SnapshotRow,
        planning: Planning,
        request_id: str | None,
        *,
        what_if: bool,
    ) -> tuple[PlanRow, bool]:
        """The plan that answers, and whether it is new."""
        digest = planning_key(planning, read_reservations(connection, {snapshot.cluster}))
        answering = (
            (plans.c.snapshot_id == snapshot.id)
            & (plans.c.planning_hash == digest)
            & plans.c.state.in_(ANSWERING)
        )
        newer: dict[str, Any] = {"sequence": snapshot.sequence, "taken_at": snapshot.taken_at}
        if what_if:
            newer = {"supersedable": False}
        while True:
            fresh = self._fresh(snapshot, planning, digest, request_id, supersedable=not what_if)
            added = self.add(connection, plans, fresh)
            if not added:
                connection.execute(update(plans).where(answering).values(**newer))
            row = connection.execute(select(plans).where(answering)).one_or_none()
            if row is not None:  # else the plan that stood in the way has just ended: try again
                return plan_row(row), added

    def _fresh(
        self,
        snapshot: SnapshotRow,
        planning: Planning,
        digest: str,
        request_id: str | None,
        *,
        supersedable: bool,
    ) -> dict[str, Any]:
        """A new queued plan's row."""
        now = self.now()
        return {
            "id": new_id(),
            "snapshot_id": snapshot.id,
            "cluster": snapshot.cluster,
            "sequence": snapshot.sequence,
            "taken_at": snapshot.taken_at,
            "supersedable": supersedable,
            "planning": planning_text(planning),
            "planning_hash": digest,
            "state": "queued",
            "attempt": 0,
            "created_at": now,
            "published_at": now,
            "request_id": request_id,
        }

    def _supersede_older(self, connection: Connection, arrival: SnapshotRow, keep: str) -> tuple[str, ...]:
        older = plans.c.taken_at <= arrival.taken_at
        if arrival.sequence is not None:
            older = or_(
                plans.c.sequence < arrival.sequence,
                (plans.c.sequence.is_(None) | (plans.c.sequence == arrival.sequence)) & older,
            )
        old = (
            (plans.c.cluster == arrival.cluster)
            & (plans.c.state == "queued")
            & plans.c.supersedable
            & (plans.c.id != keep)
            & older
        )
        change = update(plans).where(old).values(state="superseded", finished_at=self.now())
        return tuple(connection.execute(change.returning(plans.c.id)).scalars())
