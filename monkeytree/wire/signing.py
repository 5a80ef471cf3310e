"""Signed requests to agents: HMAC-SHA256 over what is asked, of whose agent, when, and a nonce.

    Authorization: MT-HMAC ts=1764460800.123,nonce=...,sig=HEX

The secret itself never travels. A request is good once, within :data:`SKEW_S` of its time, and at the agent
of one node: agents of a cluster share a secret, so what was sent to one must be worth nothing at another.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

SCHEME = "MT-HMAC"
SKEW_S = 60.0


def sign(secret: str, node: str, method: str, target: str, body: bytes, *, now: float | None = None) -> str:
    """The value of ``Authorization``; ``node``: whose agent is meant, ``target``: path with query string."""
    ts = f"{time.time() if now is None else now:.3f}"
    nonce = secrets.token_hex(16)
    return f"{SCHEME} ts={ts},nonce={nonce},sig={signature(secret, node, method, target, body, ts, nonce)}"


def signature(secret: str, node: str, method: str, target: str, body: bytes, ts: str, nonce: str) -> str:
    """HMAC-SHA256 in hex over the lines node, method, target, ts, nonce and the SHA-256 of the body."""
    lines = "\n".join([node, method.upper(), target, ts, nonce, hashlib.sha256(body).hexdigest()])
    return hmac.new(secret.encode(), lines.encode(), hashlib.sha256).hexdigest()


def parse(value: str) -> tuple[str, str, str] | None:
    """(ts, nonce, sig) of an ``Authorization`` value; None where it is none of this scheme."""
    scheme, _, rest = value.partition(" ")
    if scheme != SCHEME:
        return None
    members = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    try:
        return members["ts"], members["nonce"], members["sig"]
    except KeyError:
        return None
