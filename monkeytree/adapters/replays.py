"""The part of the store that remembers answers by Idempotency-Key (IETF draft 06).

A key belongs to the token that sent it. The first request reserves it; until that is answered a second
one is told so, unless the first is so old that its process must be dead.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from sqlalchemy import delete, select, update

from .again import again, again_in_any_case
from .errors import IdempotencyInProgress, IdempotencyKeyReused
from .rows import Part, pack, unpack
from .tables import idempotency

#: A request older than this without an answer died with its process.
ABANDONED_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer as it was first given."""

    status: int
    headers: dict[str, str]
    body: bytes


class Replays(Part):
    """Answers by Idempotency-Key."""

    @again
    def reserve_key(self, token: str, key: str, request_hash: str) -> Answer | None:
        """Take the key for a request; the first answer if there is one already.

        Raises:
            IdempotencyKeyReused: the key was used for another request.
            IdempotencyInProgress: the first request is not answered yet.
        """
        now = self.now()
        mine = (idempotency.c.token == token) & (idempotency.c.key == key)
        row = {"token": token, "key": key, "request_hash": request_hash, "created_at": now}
        with self.writing() as connection:
            while True:
                if self.add(connection, idempotency, row):
                    return None
                found = connection.execute(select(idempotency).where(mine)).one_or_none()
                if found is not None:  # else it was released just now: try again
                    break
            if found.request_hash != request_hash:
                raise IdempotencyKeyReused(key)
            if found.status is not None:
                return Answer(found.status, orjson.loads(found.headers), unpack(found.body))
            abandoned = mine & idempotency.c.status.is_(None) & (idempotency.c.created_at < now - ABANDONED_S)
            if not connection.execute(update(idempotency).where(abandoned).values(created_at=now)).rowcount:
                raise IdempotencyInProgress(key)
        return None

    @again_in_any_case
    def keep_answer(self, token: str, key: str, answer: Answer) -> None:
        """Remember the answer to the request that reserved the key."""
        mine = (idempotency.c.token == token) & (idempotency.c.key == key)
        values = {
            "status": answer.status,
            "headers": orjson.dumps(answer.headers).decode(),
            "body": pack(answer.body),
        }
        with self.writing() as connection:
            connection.execute(update(idempotency).where(mine).values(**values))

    @again
    def release_key(self, token: str, key: str) -> None:
        """Forget a key whose request gave no answer worth keeping; a retry then runs afresh."""
        mine = (idempotency.c.token == token) & (idempotency.c.key == key) & idempotency.c.status.is_(None)
        with self.writing() as connection:
            connection.execute(delete(idempotency).where(mine))

    @again
    def prune_keys(self, older_than_s: float) -> int:
        """Delete keys older than this; how many there were."""
        old = idempotency.c.created_at < self.now() - older_than_s
        with self.writing(durable=False) as connection:
            return connection.execute(delete(idempotency).where(old)).rowcount
