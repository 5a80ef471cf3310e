"""Who may call: a bearer token over a trusted network, or a signed request that is good once."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable

from monkeytree.wire.signing import SKEW_S, parse, signature

from .problems import Replayed, Unauthenticated


class Doorkeeper:
    """Checks the ``Authorization`` of calls."""

    def __init__(self, secret: str, node: str, clock: Callable[[], float] = time.time) -> None:
        """``secret`` must not be empty; requests must be signed for ``node``."""
        if not secret:
            raise ValueError("an agent needs a token")
        self._secret = secret
        self._node = node
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}

    def check(self, authorization: str, method: str, target: str, body: bytes) -> None:
        """Let the call in.

        Raises:
            Unauthenticated: no token, or the wrong one.
            Replayed: a signature that was used before, or is too old or too new.
        """
        if authorization.startswith("Bearer "):
            said = authorization.removeprefix("Bearer ").strip()
            if not hmac.compare_digest(said.encode(), self._secret.encode()):
                raise Unauthenticated("the bearer token is not the one of this agent")
            return
        signed = parse(authorization)
        if signed is None:
            raise Unauthenticated("send `Authorization: Bearer TOKEN`, or a signed request (MT-HMAC)")
        ts, nonce, sig = signed
        wanted = signature(self._secret, self._node, method, target, body, ts, nonce)
        if not hmac.compare_digest(sig.encode(), wanted.encode()):
            raise Unauthenticated(
                f"the signature does not fit the request, this agent's token and its node {self._node!r}"
            )
        self._once(ts, nonce)

    def _once(self, ts: str, nonce: str) -> None:
        now = self._clock()
        off = abs(now - float(ts))
        if off > SKEW_S:
            raise Replayed(f"the request is {off:.0f} s off this node's clock; {SKEW_S:.0f} s are allowed")
        with self._lock:
            if nonce in self._seen:
                raise Replayed("a request with this nonce was taken before: sign each one anew")
            self._seen[nonce] = now
            if len(self._seen) % 256 == 0:
                old = now - 2 * SKEW_S
                self._seen = {known: at for known, at in self._seen.items() if at > old}
