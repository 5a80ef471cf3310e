"""Plays a drill: job, agents, controller, kill; then the same job unmigrated; then the comparison."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from monkeytree.wire.agents import Deadlines

from ..errors import CommandFailed, Exit
from .controller import Order
from .follow import RESTART_S, ControllerProcess, Shooting
from .launcher import Launcher
from .nodes import NodeAgent, standby
from .outcome import Outcome, read_outcome
from .report import Document, make_report
from .scene import RANKS, Scene, plan_scene
from .watch import Kill, shoot

HELD_BY_MOVERS = {"PREPARING": 1.5, "SENDING": 1.5, "VERIFIED": 1.5}
"""State -> seconds. In a drill with a kill its state is held, so that the kill falls into it."""
HELD_BY_RANKS = {"PAUSED": 15.0, "DECIDED": 15.0, "REFORMED": 15.0}
"""As above; these holds end when the kill is done."""
BEFORE, AFTER = 3, 3
"""Iterations to see before the move begins, and after it has ended."""
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Drill:
    """What to do.

    Attributes:
        state_bytes: weights and optimizer state of a rank, about.
        warm: start the standby before the pause.
        kill: whom, and when.
        ranks: of the job.
        iteration_s: the shortest iteration.
    """

    state_bytes: float = 25e6
    warm: bool = True
    kill: Kill | None = None
    ranks: int = RANKS
    iteration_s: float = 0.15

    @property
    def small(self) -> bool:
        """Whether a digest after each iteration costs nothing: then drills share their reference."""
        return self.state_bytes < 2e6

    @property
    def deadlines(self) -> Deadlines:
        """Short where something is killed; else long enough for a slow machine."""
        gigabytes = self.state_bytes / 1e9
        if self.kill is not None:
            pause_s = 30.0 + 30 * gigabytes
            return Deadlines(prepare_s=120.0, arm_s=30.0, pause_s=pause_s, first_iteration_s=30.0)
        return Deadlines(pause_s=120.0 + 60 * gigabytes)


@dataclass(slots=True)
class Stage:
    """What several drills share: the launcher of the ranks, and references that were trained already.

    Attributes:
        many: whether drills like the one being played are to come.
    """

    folder: Path
    launcher: Launcher
    say: Callable[[str], None]
    count: int = 0
    references: dict[tuple[float, int], Outcome] = field(default_factory=dict)
    agents: dict[str, NodeAgent] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    many: bool = False

    @classmethod
    def open(cls, folder: Path, say: Callable[[str], None], *, many: bool = False) -> Stage:
        """Start the launcher; ``say`` hears what is going on, one line at a time."""
        folder.mkdir(parents=True, exist_ok=True)
        say("starting PyTorch")
        return cls(folder, Launcher(folder / "launcher.err"), say, many=many)

    def close(self) -> None:
        """End everything."""
        self.strike()
        self.launcher.close()

    def staff(self, nodes: list[str], faults: tuple[str, ...]) -> dict[str, NodeAgent]:
        """Agents for the nodes; those of the last drill where they will do."""
        if faults != self.faults or set(nodes) != set(self.agents):
            self.strike()
            self.say(f"starting the agents of {', '.join(nodes)}")
            self.faults = faults
            place = self.folder / f"agents-{self.count}"
            self.agents = {node: NodeAgent(node, place / node, faults) for node in nodes}
        for agent in self.agents.values():
            if agent.dead():
                agent.start()
            agent.wait()
        return self.agents

    def strike(self) -> None:
        """End the agents."""
        for agent in self.agents.values():
            agent.close()
        self.agents = {}

    def play(self, drill: Drill) -> Document:
        """One drill; its report."""
        self.count += 1
        begun = time.monotonic()
        scene = plan_scene(drill.ranks)
        here = self.folder / f"drill-{self.count}"
        run, result, hit = _Play(self, drill, scene, here).play()
        reference = self.reference(drill, run.steps)
        report = make_report(
            run,
            reference,
            result,
            scene.move.rank,
            drill.ranks,
            source=scene.move.source,
            target=scene.move.target,
            warm=drill.warm,
            killed=hit,
            kill=None if drill.kill is None else str(drill.kill),
            seconds=time.monotonic() - begun,
        )
        if report["identical"]:
            shutil.rmtree(here, ignore_errors=True)
        else:
            self.strike()  # the next drill gets new ones
        return report

    def reference(self, drill: Drill, steps: int) -> Outcome:
        """The same job for as many steps or more, with no agents and no pause."""
        known = self.references.get((drill.state_bytes, drill.ranks))
        if known is not None and known.steps >= steps:
            return known
        shared = self.many and drill.small and drill.kill is not None
        told = f"training {steps} steps unmigrated"
        if shared:
            more = max(200, steps + steps // 2)
            told = f"training {more} steps unmigrated: this drill's {steps}, and more for those to come"
            steps = more
        self.say(told)
        folder = self.folder / f"reference-{self.count}"
        folder.mkdir(parents=True)
        name = f"reference-{self.count}"
        self.launcher.start(name, _spec(replace(drill, iteration_s=0.0, kill=None), folder, steps))
        done = self.launcher.wait(name, drill.ranks, PATIENCE_S)
        self.launcher.stop(name)
        outcome = read_outcome(folder)
        if not done or len(outcome.finals) != drill.ranks:
            raise CommandFailed(f"the unmigrated run did not finish, see {folder}", Exit.NOT_FINISHED)
        shutil.rmtree(folder, ignore_errors=True)
        if shared:
            self.references[drill.state_bytes, drill.ranks] = outcome
        return outcome


class _Play:
    """One drill in the making."""

    def __init__(self, stage: Stage, drill: Drill, scene: Scene, folder: Path) -> None:
        self.stage, self.drill, self.scene, self.folder = stage, drill, scene, folder
        self.name = f"drill-{stage.count}"
        self.agents: dict[str, NodeAgent] = {}
        self.down: dict[str, float] = {}

    def play(self) -> tuple[Outcome, Document, Document | None]:
        """What the ranks logged, what became of the move, what was killed."""
        self.folder.mkdir(parents=True)
        try:
            self._start()
            result, hit = self._move()
            outcome = self._finish()
        finally:
            self.stage.launcher.stop(self.name)
            shoot(lambda: standby(self.folder / "spec.json"))
        return outcome, result, hit

    def _start(self) -> None:
        drill, stage = self.drill, self.stage
        held = _held(drill, HELD_BY_MOVERS)
        faults = tuple(f"hold:{state}:{seconds}" for state, seconds in held.items())
        self.agents = stage.staff(self.scene.nodes, faults)
        stage.say(f"training on {drill.ranks} ranks")
        sockets = [self.agents[node].socket for node in self.scene.seats]
        stage.launcher.start(self.name, _spec(drill, self.folder, steps=1_000_000), sockets)
        self._until(lambda outcome: outcome.steps >= BEFORE, "train")

    def _move(self) -> tuple[Document, Document | None]:
        drill, move = self.drill, self.scene.move
        agents = {node: (agent.url, agent.secret) for node, agent in self.agents.items()}
        order = Order(self.scene, agents, self.stage.count, self.name, drill.warm, drill.deadlines)
        how = "warm" if drill.warm else "cold"
        self.stage.say(f"moving rank {move.rank} from {move.source} to {move.target}, {how}")
        controller = ControllerProcess(order)
        shooting = (
            Shooting(drill.kill, order, lambda who: self._find(who, controller)) if drill.kill else None
        )
        try:
            self._follow(controller, shooting)
        finally:
            controller.close()
        return controller.result or {}, shooting.hit if shooting else None

    def _follow(self, controller: ControllerProcess, shooting: Shooting | None) -> None:
        """Until the controller is done and whatever was killed is back."""
        deadline = time.monotonic() + PATIENCE_S
        gone_at: float | None = None
        while controller.result is None or self.down:
            if time.monotonic() > deadline:
                raise CommandFailed(f"the move did not end, see {self.folder}", Exit.NOT_FINISHED)
            if shooting is not None and shooting.look():
                self.stage.say(f"killed: {shooting.kill}")
                (self.folder / "go").touch()
            if gone_at is None and not controller.look(0.002 if shooting and not shooting.hit else 0.05):
                gone_at = time.monotonic()
            if gone_at is not None and controller.result is None and time.monotonic() > gone_at + RESTART_S:
                if controller.error is not None:
                    raise CommandFailed(f"the controller failed: {controller.error}", Exit.INTERNAL)
                controller.again()
                gone_at = None
            if gone_at is not None:
                time.sleep(0.02)
            self._restart_agents()

    def _restart_agents(self) -> None:
        """An agent that is down comes back after a while, as a service manager would have it."""
        for node, agent in self.agents.items():
            if node not in self.down and agent.dead():
                self.down[node] = time.monotonic() + RESTART_S
            elif node in self.down and time.monotonic() > self.down[node]:
                agent.start()
                agent.wait()
                del self.down[node]

    def _finish(self) -> Outcome:
        """Some iterations more on every rank, then the end of the job."""
        ranks = range(self.drill.ranks)
        last = max(self._read().step_of(rank) for rank in ranks) + AFTER
        self._until(lambda outcome: min(outcome.step_of(rank) for rank in ranks) >= last, "go on")
        (self.folder / "stop").touch()
        return self._until(lambda outcome: len(outcome.finals) == len(ranks), "end")

    def _until(self, holds: Callable[[Outcome], bool], what: str) -> Outcome:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            outcome = self._read()
            if holds(outcome):
                return outcome
            self.stage.launcher.look()
            failed = {rank: code for rank, code in self.stage.launcher.ended[self.name].items() if code}
            if failed or time.monotonic() > deadline:
                why = f"ranks ended with {failed}" if failed else f"not within {PATIENCE_S:g} s"
                raise CommandFailed(f"the job did not {what}: {why}, see {self.folder}", Exit.NOT_FINISHED)
            time.sleep(0.05)

    def _read(self) -> Outcome:
        return read_outcome(self.folder)

    def _find(self, who: str, controller: ControllerProcess) -> int | None:
        """The process of an actor."""
        move, agents = self.scene.move, self.agents
        if who == "controller":
            return controller.pid
        if who == "destination":
            return standby(self.folder / "spec.json")
        if who == "other-agent":
            return agents[self.scene.seats[-1]].pid
        side, _, part = who.partition("-")
        agent = agents[move.source if side == "source" else move.target]
        return agent.pid if part == "agent" else agent.mover()


def _held(drill: Drill, by: dict[str, float]) -> dict[str, float]:
    """The state of the kill, where it is one of those."""
    return {state: by[state] for state in by if drill.kill is not None and drill.kill.state == state}


def _spec(drill: Drill, folder: Path, steps: int) -> dict[str, Any]:
    return {
        "name": "drill",
        "world_size": drill.ranks,
        "steps": steps,
        "state_bytes": drill.state_bytes,
        "folder": str(folder),
        "iteration_s": drill.iteration_s,
        "timeout_s": 30.0 if drill.kill else 60.0,
        "holds": _held(drill, HELD_BY_RANKS),
        "digests": drill.small,
    }
