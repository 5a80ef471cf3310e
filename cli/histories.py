"""A cluster's history of snapshots: files of a folder, a running service, or the data of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import httpx

import monkeytree
from monkeytree.adapters.paging import Span
from monkeytree.adapters.settings import Settings
from monkeytree.errors import InvalidSnapshot
from monkeytree.snapshot import Snapshot
from monkeytree.wire.snapshot import parse_snapshot

from .errors import CommandFailed
from .stores import open_store
from .supervisor.datadir import default_data_dir


def from_folder(folder: Path, cluster: str | None) -> list[Snapshot]:
    """Every snapshot in ``folder`` (``*.json``); files that hold none are named on standard error.

    Args:
        cluster: read that cluster's only; needed where there are several.

    Raises:
        CommandFailed: there is none, or there are several clusters.
    """
    found: list[Snapshot] = []
    for path in sorted(one for one in folder.glob("*.json") if not one.is_dir()):
        try:
            found.append(monkeytree.load_snapshot(path))
        except InvalidSnapshot as error:
            first = error.offences[0]
            click.echo(f"left out {path}: {first.pointer or 'the document'} {first.message}", err=True)
    if cluster is not None:
        found = [snapshot for snapshot in found if snapshot.cluster == cluster]
    names = sorted({snapshot.cluster for snapshot in found})
    if len(names) > 1:
        raise CommandFailed(f"{folder} holds snapshots of {', '.join(names)}; choose one with --cluster")
    if not found:
        of = f" of cluster {cluster!r}" if cluster is not None else ""
        raise CommandFailed(f"{folder} holds no snapshot{of} (files *.json, docs/contract.md section 1)")
    return found


def from_service(url: str, token: str | None, cluster: str) -> list[Snapshot]:
    """Every snapshot of ``cluster`` that the service at ``url`` keeps.

    Raises:
        CommandFailed: it does not answer, refuses, or knows none.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=30.0, follow_redirects=False) as http:
            found = [parse_snapshot(_get(http, f"/v1/snapshots/{name}", {}).content)
                     for name in _listed(http, cluster)]  # fmt: skip
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CommandFailed(f"the service at {url} cannot be asked: {error}") from None
    if not found:
        raise CommandFailed(f"the service at {url} keeps no snapshot of cluster {cluster!r}")
    return found


def _listed(http: httpx.Client, cluster: str) -> Iterator[str]:
    cursor: str | None = None
    while True:
        query = {"cluster": cluster, "limit": "200"} | ({"cursor": cursor} if cursor else {})
        page = _get(http, "/v1/snapshots", query).json()
        yield from (item["id"] for item in page["items"])
        cursor = page["next"]
        if cursor is None:
            return


def _get(http: httpx.Client, path: str, query: dict[str, str]) -> httpx.Response:
    answer = http.get(path, params=query)
    if answer.status_code != 200:
        hint = " (give a token with --token or MONKEYTREE_TOKEN)" if answer.status_code == 401 else ""
        raise CommandFailed(f"GET {answer.url} answered {answer.status_code}{hint}: {answer.text[:300]}")
    return answer


def from_data(data: Path | None, cluster: str) -> list[Snapshot]:
    """Every snapshot of ``cluster`` in the data of a service, which may be running.

    Raises:
        CommandFailed: there are no data there, or no snapshot of that cluster.
    """
    folder = (data or default_data_dir()).absolute()
    # No history needs the broker, but settings do not come without its URL.
    environ = {"REDIS_URL": "redis://localhost", **os.environ, "MONKEYTREE_DATA": str(folder)}
    unknown = (
        f"{cluster!r} is no folder, and {folder} keeps no snapshot of a cluster of that name "
        "(--server URL asks a running service)"
    )
    if not environ.get("DATABASE_URL") and not folder.is_dir():
        raise CommandFailed(unknown)
    store = open_store(Settings.from_env(environ))
    found: list[Snapshot] = []
    after: tuple[float, str] | None = None
    while True:
        page = store.list_snapshots(Span(frozenset({cluster}), after=after, limit=200))
        found += [parse_snapshot(store.snapshot_body(row.id)) for row in page.items]
        after = page.next
        if after is None:
            break
    if not found:
        raise CommandFailed(unknown)
    return found
