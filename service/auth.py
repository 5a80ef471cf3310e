"""Who calls, and whether the call's roles let them."""

from __future__ import annotations

from flask import g, request

from monkeytree.adapters.tokens import Token

from .calls import ANY, CALLS, PAGES
from .desk import the_desk
from .problems import RequestRefused

_MAKE_ONE = (
    "make one on the service's machine, `monkeytree token add NAME --role ROLE`, and send it as "
    "`Authorization: Bearer mt_...`"
)


class Unauthenticated(RequestRefused):
    """No valid bearer token came with the request."""

    code = "unauthenticated"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": 'Bearer realm="monkeytree"'})


class Forbidden(RequestRefused):
    """The token has none of the call's roles."""

    code = "forbidden"


class ForbiddenCluster(RequestRefused):
    """The token is bound to other clusters."""

    code = "forbidden_cluster"


def identify() -> None:
    """Look the bearer token up, before the rate limiter asks whose request this is."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    g.token = the_desk().store.find_token(text.strip()) if scheme.lower() == "bearer" and text else None


def authorise() -> None:
    """Refuse the request unless its token has a role of the call.

    Every endpoint is refused unless it stands in the table of calls or is a page.

    Raises:
        Unauthenticated: no valid token.
        Forbidden: none of its roles will do.
    """
    if request.endpoint is None:
        return  # no such URL or method: the router says so
    name = request.endpoint.rpartition(".")[2]
    if name in PAGES or (name in CALLS and not CALLS[name].roles):
        return
    roles = CALLS[name].roles if name in CALLS else frozenset()
    if g.token is None:
        sent = "an unknown one" if request.headers.get("Authorization") else "none"
        raise Unauthenticated(f"this call needs a bearer token, got {sent}; {_MAKE_ONE}")
    if not roles & g.token.roles:
        wanted = " or ".join(sorted(roles)) if roles != ANY else "any"
        raise Forbidden(f"{name} needs the role {wanted}; this token has {', '.join(sorted(g.token.roles))}")


def token() -> Token:
    """The token of a guarded request."""
    found: Token = g.token
    return found


def see(cluster: str) -> None:
    """Refuse a cluster that the token is not bound to.

    Raises:
        ForbiddenCluster: naming the cluster.
    """
    if not token().sees(cluster):
        bound = ", ".join(sorted(token().clusters))
        raise ForbiddenCluster(f"cluster {cluster!r} is not among those of this token: {bound}")


def clusters_to_list(wanted: str | None) -> frozenset[str] | None:
    """The clusters a list may show: the one asked for, else those of the token (None: all).

    Raises:
        ForbiddenCluster: the one asked for is not the token's.
    """
    if wanted is not None:
        see(wanted)
        return frozenset({wanted})
    return token().clusters or None
