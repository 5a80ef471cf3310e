"""The part of the store that knows bearer tokens: 256 random bits, kept as SHA-256 only."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, or_, select
from sqlalchemy.exc import IntegrityError

from monkeytree.limits import MAX_NAME, is_name, is_text

from .again import again
from .errors import InvalidTokenName, TokenNameTaken, UnknownRole, UnknownToken
from .rows import Part
from .tables import tokens

ROLES = ("scheduler", "researcher", "operator", "agent")
PREFIX_LENGTH = 11


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret; no ``clusters`` means all of them."""

    hash: str
    prefix: str
    name: str
    roles: frozenset[str]
    clusters: frozenset[str]
    created_at: float

    def sees(self, cluster: str) -> bool:
        """Whether the token may touch ``cluster``."""
        return not self.clusters or cluster in self.clusters


class Tokens(Part):
    """Bearer tokens."""

    @again
    def add_token(self, name: str, roles: Collection[str], clusters: Collection[str] = ()) -> str:
        """Make a token and return its text, ``mt_...``; it cannot be read again.

        Raises:
            InvalidTokenName: its name, or that of a cluster, can be no name. An empty cluster above all
                must not pass for "all of them".
            UnknownRole: a role is not one of :data:`ROLES`, or none is given.
            TokenNameTaken: another token has that name.
        """
        for noun, text in (("token", name), *(("cluster", cluster) for cluster in clusters)):
            if not is_name(text):
                raise InvalidTokenName(
                    f"the name of a {noun} takes 1 to {MAX_NAME} characters, none of them a control "
                    f"character; got {text!r}"
                )
        wrong = sorted(set(roles) - set(ROLES))
        if wrong or not roles:
            raise UnknownRole(f"a token needs roles among {', '.join(ROLES)}; got {wrong or 'none'}")
        text = "mt_" + secrets.token_urlsafe(32)
        row = {
            "hash": _hash(text), "prefix": text[:PREFIX_LENGTH], "name": name, "created_at": self.now(),
            "roles": "\n".join(sorted(set(roles))), "clusters": "\n".join(sorted(set(clusters))),
        }  # fmt: skip
        try:
            with self.writing() as connection:
                connection.execute(self.insert(tokens).values(**row))
        except IntegrityError:
            raise TokenNameTaken(name) from None
        return text

    def list_tokens(self) -> tuple[Token, ...]:
        """All tokens, oldest first."""
        with self.reading() as connection:
            return tuple(
                _token(row) for row in connection.execute(select(tokens).order_by(tokens.c.created_at))
            )

    @again
    def revoke_token(self, prefix_or_name: str) -> Token:
        """Delete the token of that name, that text, or whose text starts so; it is refused from now on.

        Raises:
            UnknownToken: no token, or more than one, fits.
        """
        if not is_text(prefix_or_name):
            raise UnknownToken(prefix_or_name)
        whole = len(prefix_or_name) > PREFIX_LENGTH
        starts = tokens.c.hash == _hash(prefix_or_name) if whole else tokens.c.prefix == prefix_or_name
        fits = or_(tokens.c.name == prefix_or_name, starts)
        with self.writing() as connection:
            rows = connection.execute(select(tokens).where(fits)).all()
            if len(rows) != 1:
                raise UnknownToken(prefix_or_name)
            connection.execute(delete(tokens).where(tokens.c.hash == rows[0].hash))
        return _token(rows[0])

    def has_tokens(self) -> bool:
        """Whether any token exists."""
        with self.reading() as connection:
            return connection.execute(select(tokens.c.hash).limit(1)).one_or_none() is not None

    @again
    def find_token(self, text: str) -> Token | None:
        """The token whose text this is.

        The look-up is by SHA-256, so its timing tells nothing about the text.
        """
        with self.reading() as connection:
            row = connection.execute(select(tokens).where(tokens.c.hash == _hash(text))).one_or_none()
        return None if row is None else _token(row)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _token(row: Any) -> Token:
    roles, clusters = frozenset(row.roles.split("\n")), frozenset(filter(None, row.clusters.split("\n")))
    return Token(row.hash, row.prefix, row.name, roles, clusters, row.created_at)
