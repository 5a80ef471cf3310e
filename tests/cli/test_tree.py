"""The process tree: restarts, orderly stops, and nothing left after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from monkeytree.cli.supervisor.child import Spec
from monkeytree.cli.supervisor.tree import ChildFailed, Tree

# A child that starts a grandchild in its own group, and one that is deaf to SIGTERM.
FAMILY = (
    "import subprocess as s, sys, time; s.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
)
SLEEP = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
DRIVER = """
import sys, time
from monkeytree.cli.supervisor.child import Spec
from monkeytree.cli.supervisor.tree import Tree
tree = Tree()
tree.start(Spec("family", [sys.executable, "-c", {family!r}]))
tree.start(Spec("lone", [sys.executable, "-c", {sleep!r}]))
print("up", flush=True)
while True:
    tree.tick()
    time.sleep(0.05)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def tree() -> Iterator[Tree]:
    grown = Tree()
    yield grown
    grown.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_supervisor(number: signal.Signals) -> None:
    driver = subprocess.Popen(
        python(DRIVER.format(family=FAMILY + SLEEP, sleep=SLEEP)), stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "up\n"
    me = psutil.Process(driver.pid)
    assert eventually(lambda: len(me.children(recursive=True)) == 4)  # warden, two children, grandchild
    all_of_them = me.children(recursive=True)
    driver.send_signal(number)
    driver.wait()
    driver.stdout.close()
    _, alive = psutil.wait_procs(all_of_them, timeout=20)
    assert alive == []


def test_a_crashed_child_is_started_again_and_its_group_is_swept(tree: Tree) -> None:
    child = tree.start(Spec("family", python(FAMILY + SLEEP)))
    first = child.pid
    assert first is not None
    assert eventually(lambda: len(psutil.Process(first).children()) == 1)
    grandchild = psutil.Process(first).children()[0]
    os.kill(first, signal.SIGKILL)

    def started_again() -> bool:
        tree.tick()
        return bool(child.restarts == 1 and child.pid not in (None, first))

    assert eventually(started_again)
    assert eventually(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_a_child_that_keeps_crashing_is_told_of_each_time() -> None:
    said: list[str] = []
    tree = Tree(say=said.append)
    child = tree.start(Spec("hasty", python("raise SystemExit(3)")))

    def twice() -> bool:
        tree.tick()
        return bool(child.restarts == 2)

    assert eventually(twice)
    assert said[:2] == 2 * ["hasty ended with exit code 3, starting it again"]
    tree.stop()


def test_a_child_that_will_not_start_is_named(tree: Tree) -> None:
    tree.start(Spec("broken", python("raise SystemExit(7)")))
    with pytest.raises(ChildFailed, match="broken ended at its start with exit code 7"):
        tree.wait_until(lambda: False, seconds=20, what="broken")


def test_a_deaf_child_is_killed_in_the_end(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        tree = Tree(output=log)
        child = tree.start(Spec("deaf", python(DEAF), stops=((signal.SIGTERM, 0.2),)))
        assert eventually(lambda: (tmp_path / "log").read_bytes() == b"deaf\n")
        process = psutil.Process(child.pid)
        tree.stop()
        assert not process.is_running()


def test_the_first_child_stops_last(tmp_path: Path) -> None:
    note = "import signal, sys, time\ndef leave(*_):\n time.sleep({pause})\n"
    note += " print('{name}', flush=True)\n sys.exit()\n"
    note += "signal.signal(15, leave)\nprint('up', flush=True)\ntime.sleep(600)"
    log_path = tmp_path / "log"
    with log_path.open("wb") as log:
        tree = Tree(output=log)
        for name, pause in (("base", 0), ("above", 0.3)):
            tree.start(Spec(name, python(note.format(name=name, pause=pause))))
        assert eventually(lambda: log_path.read_text().count("up") == 2)
        tree.stop()
    assert log_path.read_text().split() == ["up", "up", "above", "base"]
