"""The in-memory agents behave as the real ones do, where a controller can tell."""

from __future__ import annotations

import dataclasses

import pytest

from monkeytree.adapters.agents import Agent, AgentRefused, AgentUnreachable
from monkeytree.adapters.agents_memory import MemoryCluster
from monkeytree.wire.agents import Command, MoveRequest, PauseMove, PauseRequest, Seat, WorkerStatus

PAUSE = PauseRequest(3, "A", (Seat("0", 0, "n1"), Seat("0", 1, "n2")), (PauseMove("m", "0", 0, "n1", "n3"),))


def cluster() -> MemoryCluster:
    workers = [WorkerStatus("A", "0", rank, "training", 10 + rank, 5, 2) for rank in (0, 1)]
    return MemoryCluster({"n1": [workers[0]], "n2": [workers[1]], "n3": []})


def prepare(nodes: MemoryCluster, staged: bool = False) -> tuple[Agent, Agent, Agent]:
    a1, a2, a3 = nodes.agent("n1"), nodes.agent("n2"), nodes.agent("n3")
    a3.put_move("m", MoveRequest(3, "A", "0", 0, "destination", "n1", "n3", staged=staged))
    a1.put_move("m", MoveRequest(3, "A", "0", 0, "source", "n1", "n3", staged=staged))
    descriptor = a3.prepare_move("m", Command(3)).descriptor
    a1.prepare_move("m", Command(3, descriptor))
    for agent in (a3, a1):
        agent.start_move("m", Command(3))
    return a1, a2, a3


def start(pause: PauseRequest, *agents: Agent) -> None:
    for agent in agents:
        agent.put_pause("p", pause)
    for agent in agents:
        agent.start_pause("p", Command(3))


@pytest.mark.parametrize(
    ("verdict", "state"), [("commit", "RELEASED"), ("abort", "ABORTED"), ("undo", "ABORTED")]
)
def test_a_move_goes_as_it_is_told(verdict: str, state: str) -> None:
    nodes = cluster()
    nodes.verdicts["p"] = verdict
    a1, a2, a3 = prepare(nodes)
    start(PAUSE, a1, a2)
    ended = a1.pause("p", wait_s=5)
    assert (ended.state, ended.decision) == (state, verdict)
    assert a3.move("m").state == a1.move("m").state == state
    assert [w.rank for w in a3.workers().workers] == ([0] if verdict == "commit" else [])


def test_a_staged_move_waits_for_its_destination() -> None:
    nodes = cluster()
    a1, a2, a3 = prepare(nodes, staged=True)
    staged = dataclasses.replace(PAUSE, moves=(dataclasses.replace(PAUSE.moves[0], staged=True),))
    start(staged, a1, a2)
    assert a1.move("m").parked
    assert a1.workers().workers[0].state == "parked"
    a1.start_move("m", Command(3, a3.move("m").descriptor))
    assert a2.pause("p").state == "RELEASED"
    assert [w.state for w in a3.workers().workers] == ["training"]


def test_refusals_have_the_codes_of_the_real_ones() -> None:
    nodes = cluster()
    a1 = prepare(nodes)[0]
    nodes.refuse("n1", "put_pause", "busy")
    nodes.down.add("n2")
    for call, reason in (
        (lambda: a1.put_move("m", MoveRequest(2, "A", "0", 0, "source", "n1", "n3")), "stale_epoch"),
        (lambda: a1.put_move("m", MoveRequest(3, "A", "0", 0, "source", "n1", "n4")), "conflict"),
        (lambda: a1.commit_move("m", Command(3)), "not_decided"),
        (lambda: a1.move("x"), "not_found"),
        (lambda: a1.put_pause("p", PAUSE), "busy"),
    ):
        with pytest.raises(AgentRefused) as caught:
            call()
        assert caught.value.reason == reason
    with pytest.raises(AgentUnreachable):
        nodes.agent("n2").workers()
    assert a1.put_pause("p", PAUSE).state == "NEW"
