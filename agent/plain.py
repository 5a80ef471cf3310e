"""A worker without torch: a deterministic state that every rank's every step goes into.

``python -m monkeytree.agent.plain --job J --rank R --world N --store HOST:PORT --steps S [--out FILE]``

Each step draws from its own random generator, reads a piece of its state, puts both into a sum that all
ranks form through the job's store (its "gradient"), and writes what follows from the sum into its state. A
lost byte, a generator that did not move, or a step done twice changes every later sum of every rank. At the
end it writes the sums and the digest of the state.

With ``--drill`` keys of the job's store say what standbys do: ``plain/mishaps`` has a word for each that is
started, where it dies; while ``plain/hold`` is set they stay in their first iteration.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import xxhash

from .arena import Arena
from .client import NotNeeded, register_worker, standby_worker
from .membership import Membership, WorkerState
from .standby import STANDBY_VARIABLE
from .store import SocketStore
from .worker import Worker

_PIECE = 4_096
_SUM = struct.Struct("<Q")
_LOOK_S = 0.5
_HOLD_S = 0.01
_PATIENCE_S = 120.0


class LostMember(RuntimeError):
    """The collective cannot be finished."""


class Plain:
    """State, collective and loop."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.store = SocketStore(arguments.store)
        self.members = [f"{g}/{r}" for g, n in _groups(arguments.groups, arguments.world) for r in range(n)]
        self.me = f"{arguments.group}/{arguments.rank}"
        self.name = "start"
        self.order: tuple[int, ...] = ()
        self.mishap = self._next_mishap() if arguments.drill and os.environ.get(STANDBY_VARIABLE) else ""
        more = [("more", _PIECE)] if self.mishap == "layout" else []
        self.arena = Arena.create([("weights", arguments.bytes), ("moments", _PIECE), *more])
        self.random = random.Random(f"{arguments.seed} {self.me}")
        self.loaded = 0
        self.sums: list[int] = []
        self.worker: Worker | None = None
        self.held = arguments.drill and bool(os.environ.get(STANDBY_VARIABLE))
        self.slow_first = arguments.slow_first if os.environ.get(STANDBY_VARIABLE) else 0.0
        if not os.environ.get(STANDBY_VARIABLE):
            block = random.Random(f"{arguments.seed} weights {self.me}").randbytes(
                min(2**20, arguments.bytes)
            )
            view = self.arena.view("weights")
            for offset in range(0, arguments.bytes, len(block) or 1):
                view[offset : offset + len(block)] = block[: arguments.bytes - offset]

    def _next_mishap(self) -> str:
        """Where this standby is to die."""
        first, _, rest = self.store.get("plain/mishaps").partition(" ")
        self.store.set("plain/mishaps", rest)
        return first

    def _fall(self, mishap: str) -> None:
        """Die, where that is what the drill wants here."""
        if self.mishap == mishap:
            sys.stderr.write(f"the drill has this standby die: {mishap}\n")
            sys.stderr.flush()
            os._exit(1)

    # -- what the client asks for ---------------------------------------------------------------------------

    def state(self) -> WorkerState:
        return WorkerState(self.arena, self.extras())

    def extras(self) -> bytes:
        return json.dumps([self.random.getstate(), self.loaded, self.sums]).encode()

    def restore(self, extras: bytes) -> None:
        self._fall("restore")
        (version, internal, gauss), self.loaded, self.sums = json.loads(extras)
        self.random.setstate((version, tuple(internal), gauss))

    def rebind(self, membership: Membership) -> None:
        """All meet under the membership's name, as a real group would."""
        self._fall("rebind")
        self.name = membership.name
        self.order = membership.orders.get(self.arguments.group, ())
        self.store.set(f"plain/{self.name}/here/{self.me}", "1")
        ends = time.monotonic() + min(membership.timeout_s, _PATIENCE_S)
        keys = [f"plain/{self.name}/here/{member.id}" for member in membership.members]
        while not self.store.wait(keys, _LOOK_S):
            if time.monotonic() > ends or self.store.get(membership.undo_key) == "undo":
                raise LostMember(f"not all members came to {self.name}")

    # -- the training ---------------------------------------------------------------------------------------

    def step(self, step: int) -> None:
        """One iteration up to the update, and the update."""
        self._fall("first")
        self.loaded += 1
        drawn = self.random.getrandbits(63)
        view = self.arena.view("weights")
        at = (self.loaded * _PIECE) % max(len(view) - _PIECE, 1)
        mine = xxhash.xxh3_64_intdigest(bytes(view[at : at + _PIECE]), seed=drawn) ^ drawn
        total = self._sum(step, mine)
        if self.worker is not None:
            if self.slow_first and self.worker.in_probation:
                time.sleep(self.slow_first)
            while self.held and self.worker.in_probation and self.store.get("plain/hold"):
                time.sleep(_HOLD_S)
            self.worker.before_update()
        self._update(step, at, total)
        self._fall("update")
        self.sums.append(total)
        if step >= 2:
            self.store.delete(f"plain/{self.name}/{step - 2}/{self.me}")
        if self.arguments.pause_ms:
            time.sleep(self.arguments.pause_ms / 1e3)

    def _sum(self, step: int, mine: int) -> int:
        """What all ranks add, in the order of the members."""
        prefix = f"plain/{self.name}/{step}/"
        self.store.set(prefix + self.me, str(mine))
        keys = [prefix + member for member in self.members]
        ends = time.monotonic() + _PATIENCE_S
        while not self.store.wait(keys, _LOOK_S):
            undone = self.worker is not None and self.worker.undone
            if undone or time.monotonic() > ends:
                raise LostMember(f"step {step}: not all ranks came")
        total = 0
        for key in keys:
            total = (total * 31 + int(self.store.get(key))) % 2**64
        return total

    def _update(self, step: int, at: int, total: int) -> None:
        view = self.arena.view("weights")
        view[at : at + _PIECE] = random.Random(total).randbytes(len(view[at : at + _PIECE]))
        moments = self.arena.view("moments")
        _SUM.pack_into(moments, (step % (_PIECE // _SUM.size)) * _SUM.size, total)

    def digest(self) -> str:
        """Of the whole state, generator and loader included."""
        whole = xxhash.xxh3_128()
        for name in ("weights", "moments"):
            whole.update(self.arena.view(name))
        whole.update(repr((self.random.getstate(), self.loaded)).encode())
        return whole.hexdigest()

    def run(self) -> int:
        """Train to the end; 0, also where the rank has moved away meanwhile."""
        a = self.arguments
        standby = bool(os.environ.get(STANDBY_VARIABLE))
        time.sleep(a.slow_start if standby else 0.0)
        if standby:
            self._fall("start")
            time.sleep(3_600.0 if self.mishap == "hang" else 0.0)
            self.worker = standby_worker(
                self.state, self.rebind, restore_fn=self.restore, extras_fn=self.extras, store=self.store
            )
        else:
            self.worker = register_worker(
                a.job, a.rank, self.state, self.rebind, restore_fn=self.restore, extras_fn=self.extras,
                update_is_local=not a.shared_update, world_size=len(self.members), store=self.store,
                group=a.group, slots=a.slots,
                standby_command=[sys.executable, "-m", "monkeytree.agent.plain", *sys.argv[1:]],
            )  # fmt: skip
        worker, step = self.worker, self.worker.step
        while a.steps == 0 or step < a.steps:
            if not worker.boundary(step) or self._told_to_stop(step):
                break
            try:
                self.step(step)
            except LostMember as error:
                worker.redo(error)
                continue
            except Exception as error:  # noqa: BLE001  # an iteration may fail in any way: redo() judges
                worker.redo(error)
                continue
            step += 1
        else:
            worker.close()
            self._write(step)
        worker.close()
        return 0

    def _told_to_stop(self, step: int) -> bool:
        """With ``--steps 0`` the job runs until ``plain/stop`` names a step."""
        if self.arguments.steps:
            return False
        said = self.store.get("plain/stop")
        if not said or step < int(said):
            return False
        self._write(step)
        return True

    def _write(self, step: int) -> None:
        if not self.arguments.out:
            return
        path = Path(self.arguments.out)
        about = {"rank": self.arguments.rank, "group": self.arguments.group, "pid": os.getpid(), "step": step}
        about |= {"digest": self.digest(), "sums": self.sums, "order": self.order, "name": self.name}
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(about), "utf-8")
        fresh.replace(path)


def _groups(text: str, world: int) -> list[tuple[str, int]]:
    """``0:4,1:2`` as pairs; by default one group of the whole world."""
    if not text:
        return [("0", world)]
    return [(name, int(count)) for name, _, count in (part.partition(":") for part in text.split(","))]


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m monkeytree.agent.plain")
    parser.add_argument("--job", required=True)
    parser.add_argument("--group", default="0")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, default=1, help="workers of the group, where it is the only one")
    parser.add_argument("--groups", default="", help="all groups of the job as NAME:WORKERS,...")
    parser.add_argument("--store", required=True, help="HOST:PORT of the job's store")
    parser.add_argument("--steps", type=int, default=0, help="0: until the key plain/stop names a step")
    parser.add_argument("--bytes", type=int, default=2**20, help="size of the state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--pause-ms", type=float, default=0.0, help="sleep in each step, as if it computed")
    parser.add_argument("--slow-start", type=float, default=0.0, help="seconds a standby takes to be up")
    parser.add_argument(
        "--slow-first", type=float, default=0.0, help="seconds its first iteration takes longer"
    )
    parser.add_argument("--shared-update", action="store_true", help="as if the update needed all ranks")
    parser.add_argument("--drill", action="store_true", help="see plain/mishaps, plain/hold")
    parser.add_argument("--out", default="", help="JSON with the digest and the sums at the end")
    return parser.parse_args(words)


def main() -> int:
    """See the module."""
    try:
        return Plain(arguments_of(sys.argv[1:])).run()
    except NotNeeded:
        return 0


if __name__ == "__main__":
    sys.exit(main())
