"""``monkeytree savings --server``: a cluster's history read from a running service, page by page."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from flask import Flask
from werkzeug.serving import make_server

from monkeytree.cli.errors import CommandFailed
from monkeytree.cli.histories import from_service
from tests.integration.rig import Rig
from tests.predict.samples import shared

from .client import Client


@pytest.fixture
def url(app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()


def test_every_snapshot_of_the_cluster_comes_once(url: str, api: Client, parts: Rig, cluster: str) -> None:
    for minute in range(3):
        for name in (cluster, f"{cluster}-other"):
            document = {**shared(minute=minute), "cluster": name}
            document["jobs"][0]["remaining_s"] = 1000 - minute
            assert api.post("/v1/snapshots", json=document).status_code == 202
    found = from_service(url, parts.token, cluster)
    assert sorted(snapshot.taken_at[14:16] for snapshot in found) == ["00", "01", "02"]
    assert {snapshot.cluster for snapshot in found} == {cluster}


def test_no_token_and_no_history_are_told(url: str, parts: Rig) -> None:
    with pytest.raises(CommandFailed, match=r"answered 401 \(give a token"):
        from_service(url, None, "c")
    with pytest.raises(CommandFailed, match="keeps no snapshot of cluster 'never-seen'"):
        from_service(url, parts.token, "never-seen")
