"""What the agent must know after a crash, on disk before it acts on it."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS fences (job TEXT PRIMARY KEY, epoch INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    kind TEXT NOT NULL, id TEXT NOT NULL, request TEXT NOT NULL, status TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (kind, id)
);
"""
_KEPT = 10_000


class Journal:
    """SQLite in WAL mode; every write is on disk when the call returns (synchronous=FULL)."""

    def __init__(self, path: Path) -> None:
        """Raises sqlite3.Error where the file is none of ours, or cannot be written."""
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10.0)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def next(self, name: str) -> int:
        """Count up, and the new count (from 1)."""
        with self._lock:
            self._db.execute(
                "INSERT INTO counters VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1",
                (name,),
            )
            row = self._db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        return int(row[0])

    def fences(self) -> dict[str, int]:
        """Highest epoch seen by job."""
        with self._lock:
            return dict(self._db.execute("SELECT job, epoch FROM fences").fetchall())

    def raise_fence(self, job: str, epoch: int) -> None:
        """Refuse lower epochs of the job from now on."""
        with self._lock:
            self._db.execute(
                "INSERT INTO fences VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET epoch = excluded.epoch "
                "WHERE excluded.epoch > epoch",
                (job, epoch),
            )

    def write(
        self, kind: str, its_id: str, request: Mapping[str, Any], status: Mapping[str, Any], at: float
    ) -> None:
        """Write a move, a pause or the routes as they are now."""
        with self._lock:
            self._db.execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO UPDATE SET "
                "request = excluded.request, status = excluded.status, at = excluded.at",
                (kind, its_id, json.dumps(request), json.dumps(status), at),
            )

    def read(self, kind: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """(id, request, status) of the newest entries, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, request, status FROM "
                "(SELECT * FROM entries WHERE kind = ? ORDER BY at DESC LIMIT ?) ORDER BY at",
                (kind, _KEPT),
            ).fetchall()
        for its_id, request, status in rows:
            yield its_id, json.loads(request), json.loads(status)

    def forget(self, before: float) -> None:
        """Drop final moves and pauses last changed before that Unix time."""
        with self._lock:
            self._db.execute(
                "DELETE FROM entries WHERE at < ? AND kind IN ('move', 'pause') "
                "AND json_extract(status, '$.state') IN ('RELEASED', 'ABORTED')",
                (before,),
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
