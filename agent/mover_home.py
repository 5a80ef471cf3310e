"""What a source's mover does to bring a parked state home: it starts the worker's successor until one is in.

One successor at a time. Before the next is started, every process of the one before is known to be dead;
the next is told so, and may then take over in the job's store what that one had claimed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from monkeytree.errors import MonkeyTreeError

from .arena import Arena, Layout
from .attempts import Attempt
from .channel import Channel, Closed
from .mover import AGAIN_S, NONSENSE, Config, Event, Mover, Progress
from .parked import ParkedFile

_MOST_STARTS = 8
"""Successors that are started at home, or more while the pause lasts."""
_REST_S, _LONGEST_REST_S = 0.25, 5.0
"""Before the second of them, doubled before each further one, and before any."""
_SENT = ("SENDING", "VERIFIED", "DECIDED", "REFORMED", "RELEASED")
_HEARD_S = 2.0
"""How long the last words of a successor that has ended may take: they come by another thread."""

_ENDED = "it ended before it was through its first iteration"


@dataclass
class HomeProgress(Progress):
    """As of every mover, with what one that comes after it must know.

    Attributes:
        returning: the state is on its way home: it is landed nowhere else any more.
        unsure: it may have landed without our hearing of it.
        home: successors that were given the state and are over, and the present one (:class:`Attempt`).
    """

    returning: bool = False
    unsure: bool = False
    home: list[dict[str, Any]] = field(default_factory=list)


class HomingMover(Mover):
    """The part of a source's mover that brings a parked state home."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.progress: HomeProgress = HomeProgress()
        self.paused_at = 0.0
        self.command: tuple[str, ...] = ()
        self.env: Mapping[str, str] = {}
        self.returning = False
        self.home_by = 0.0
        self.kept = False
        """Whether the parked state outlives the move."""
        self.attempts: list[Attempt] = []
        self.stage = "none"
        """Of the last attempt: ``up``, ``ended`` (last words may come), ``killed``, ``rest`` (it is over)."""
        self.gone = False
        """Whether its first process has ended."""
        self.speaker: Channel | None = None
        """From the attempt, once it has the state."""
        self.silent = False
        """Whether all has come that it said."""
        self._why = ""
        self._refused = ""
        """Who asked for the state without being of the last attempt's session."""
        self._killed_at = 0.0
        self._knocking: list[Event] = []

    @property
    def parked_file(self) -> ParkedFile:
        """Where the state waits."""
        return self.config.parked_file

    @property
    def attempt(self) -> Attempt:
        """The one that is under way, or was last."""
        return self.attempts[-1]

    def enter(self, state: str, **told: Any) -> None:
        """As every mover; at the end the parked state goes, after word of the end is on disk."""
        super().enter(state, **told)
        if self.final and self.request.staged:
            self.tell_peer("bye")
            if not self.kept:
                with contextlib.suppress(OSError):
                    self.parked_file.remove()

    def about(self) -> dict[str, Any]:
        """What the successor needs to know besides the state."""
        assert self.state is not None
        return {name: self.state.body.get(name) for name in ("step", "pause", "orders", "identity")}

    def inherit(self, words: Mapping[str, Any]) -> None:
        """Know what the mover before us has started."""
        for document in words.get("home") or ():
            with contextlib.suppress(TypeError):
                self.attempts.append(Attempt(**document))
        self.progress.home = [asdict(attempt) for attempt in self.attempts]
        self.progress.returning = bool(words.get("returning"))
        self.progress.unsure = words.get("state") in _SENT or bool(words.get("unsure"))

    def wait_until(self, seconds: float, code: str) -> None:
        """As every mover; who waits for the successor at home does nothing else."""
        super().wait_until(seconds, code)
        if self.returning:
            self.deadline, self.deadline_code = self.home_by, "standby_failed"

    def back_within(self, seconds: float) -> None:
        """Look again by then: :meth:`home_late`."""
        self.home_by = time.monotonic() + seconds
        self.wait_until(seconds, "standby_failed")

    # -- starting it -------------------------------------------------------------------------------------

    def go_home(self, code: str, message: str) -> None:
        """Start the worker's successor here, or wait for the one that a mover before us has started."""
        self.returning = True
        self.back_within(0.0)
        self.tell_agent(returning=True, error={"code": "returned", "message": f"{code}: {message}"})
        if not self.command:
            self.stranded("the worker told no standby_command")
        elif self.attempts and self.attempt.alive:
            self._wait_for_inherited()
        else:
            self._start()

    def _wait_for_inherited(self) -> None:
        attempt = self.attempt
        self.stage, self.gone = "up", False
        self.back_within(self.request.deadlines.prepare_s)

        def watch() -> None:
            while _there(attempt):
                time.sleep(AGAIN_S)
            self.events.put(Event("exit", None, pid=attempt.pid))

        threading.Thread(target=watch, name="watch", daemon=True).start()

    def _start(self) -> None:
        starts = self.progress.figures.get("home_starts", 0) + 1
        self.progress.figures["home_starts"] = starts
        self.stage = "rest"
        try:
            pid = self.spawn(self.command, self.env, home=True).pid
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.failed_home(f"cannot start {self.command[0]!r}: {error}")
            return
        self.stage, self.gone, self._refused = "up", False, ""
        self.attempts = [dead for dead in self.attempts if dead.given]  # no other can have taken a place
        self.attempts.append(Attempt.of(pid))
        self.back_within(self.request.deadlines.prepare_s)
        self._write_down()

    def _write_down(self) -> None:
        """Whoever comes after us is to know whom we have started; on a full disk, from the job's store."""
        self.tell_agent(home=[asdict(attempt) for attempt in self.attempts])

    # -- where it fails ----------------------------------------------------------------------------------

    def home_late(self) -> None:
        """The time is over that :meth:`back_within` gave."""
        if self.stage == "up" and self.attempt.given and self.speaker is None:
            self.back_within(AGAIN_S)  # given by a mover before us: it may train, and we wait for its end
        elif self.stage == "up":
            self.failed_home(f"it did not come up, or not back into its group, in time{self._refused}")
        elif self.stage == "ended":
            self.failed_home(_ENDED)
        elif self.stage == "killed":
            self._await_death()
        else:
            self._start()

    def home_ended(self, pid: int) -> None:
        """The successor's first process has left; what it said before may still come, by another thread."""
        if self.stage not in ("up", "killed") or pid != self.attempt.pid:
            return
        self.gone = True
        if self.stage == "killed":
            self._await_death()
        elif self.speaker is not None and not self.silent:
            self.stage = "ended"
            self.back_within(_HEARD_S)
        else:
            self.failed_home(
                _ENDED if self.attempt.given else f"it ended before it had the state{self._refused}"
            )

    def failed_home(self, why: str) -> None:
        """This successor is not to be; another one may be: what failed it (a full GPU, say) may pass."""
        self._why = why
        self.speaker = None
        if self.stage == "rest":
            self._rest()
            return
        self.stage, self._killed_at = "killed", time.monotonic()
        self._await_death()

    def _await_death(self) -> None:
        """Two at once must not be: the next one comes when nothing is left of this one."""
        self.attempt.kill()
        if self.gone and not self.attempt.alive:
            self._rest()
        elif time.monotonic() - self._killed_at > self.request.deadlines.prepare_s:
            self.stranded(f"{self._why}, and its process {self.attempt.pid} cannot be killed")
        else:
            self.back_within(AGAIN_S / 10)

    def _rest(self) -> None:
        starts = int(self.progress.figures.get("home_starts", 0))
        paused_s = time.monotonic() - self.paused_at
        if starts >= _MOST_STARTS and paused_s > self.request.deadlines.pause_s:
            self.stranded(f"{starts:g} tries failed, the last: {self._why}")
            return
        self.stage = "rest"
        self.tell_agent()
        self.back_within(min(_REST_S * 2 ** min(starts - 1, 10), _LONGEST_REST_S))

    def stranded(self, why: str) -> None:
        """The state cannot go home: the worker is lost, and that must be seen. Its state is not."""
        self.kept = True
        kept = self.parked_file
        with contextlib.suppress(OSError):
            os.utime(kept.record)  # its day begins now
        told = f"the worker could not be started at home again: {why}; see {self.config.log}"
        self.abort("standby_failed", f"{told}. {kept.where_it_is()}")

    def settled(self, error: Mapping[str, str]) -> None:
        """The rank has reported here: its worker had not left, or has come home already."""
        if self.returning and self.speaker is not None:
            return  # the successor tells us itself, and why
        self.end_home()
        self.abort(str(error.get("code", "job_aborted")), str(error.get("message", "the worker says so")))

    def end_home(self) -> None:
        """Stop a successor that has not been given the state."""
        if self.attempts and not self.attempt.given:
            self.attempt.kill()

    # -- where it comes in -------------------------------------------------------------------------------

    def welcome_home(self, event: Event) -> None:
        """A successor at home says something; only the present one counts."""
        message, channel = event.message, event.channel
        assert channel is not None
        if message is None:
            self.silent = self.silent or channel is self.speaker
            if self.silent and self.stage == "ended":
                self.home_late()
        elif message.kind == "standby":
            if self.state is None or self.arena is None:
                self._knocking.append(event)  # we are still checking it
            elif self.stage == "up" and self.speaker is None and self.attempt.owns(event.pid):
                self._give(channel, message.fds[-1], message.body["layout"])
            else:
                self._refuse(event)
        elif message.kind == "outcome" and channel is self.speaker:
            self._came_home(str(message.body.get("outcome")), str(message.body.get("holder") or ""))

    def let_in(self) -> None:
        """The state is there: whoever came before it gets it now."""
        knocking, self._knocking = self._knocking, []
        for event in knocking:
            self.welcome_home(event)

    def _refuse(self, event: Event) -> None:
        """Not the one that we started: whether that one lives, and has ended, we could not tell."""
        assert event.message is not None
        assert event.channel is not None
        if self.stage == "up" and self.speaker is None:
            self._refused = f" (process {event.pid} asked for it, from outside of the session of the command)"
        for fd in event.message.fds:
            os.close(fd)
        event.channel.close()  # it takes that as word to leave

    def _give(self, channel: Channel, fd: int, layout: Any) -> None:
        """Hand the state over; written down before, for such a one may live on without us."""
        assert self.state is not None
        assert self.arena is not None
        try:
            # Closed here: what we hold of one that has died is as much memory again.
            with contextlib.closing(Arena.attach(fd, Layout.read(layout), prefault=True)) as home:
                if home.layout() != self.arena.layout():
                    self.failed_home("it lays its arena out otherwise")
                    return
                home.whole()[:] = self.arena.whole()
        except (OSError, MemoryError, MonkeyTreeError, *NONSENSE) as error:
            self.failed_home(f"its arena cannot be used: {error!r}")
            return
        self.attempts[-1] = replace(self.attempt, given=True)
        self._write_down()
        self.speaker, self.silent = channel, False
        limits, now = self.request.deadlines, time.monotonic()
        with contextlib.suppress(Closed):
            channel.send(
                "state", self.state.blob, (), elapsed_s=now - self.paused_at, patient=self.progress.unsure,
                token=self.attempt.token, over=[dead.token for dead in self.attempts[:-1]], **self.about(),
            )  # fmt: skip
        # Where other workers of the job come home too, it waits for them.
        others = 0.0 if self._alone() else max(0.0, self.paused_at + limits.pause_s - now)
        self.back_within(others + 2 * limits.first_iteration_s)

    def _alone(self) -> bool:
        assert self.state is not None
        moves = (self.state.body.get("pause") or {}).get("moves") or ()
        return sum(bool(move.get("staged")) for move in moves) <= 1

    def _came_home(self, outcome: str, holder: str) -> None:
        """What the successor found in the job's store, or became."""
        why = (self.progress.error or {}).get("message", "the state went home")
        if outcome == "returned":  # it is in its group, and its first iteration begins
            self.back_within(2 * self.request.deadlines.first_iteration_s)
        elif outcome == "undone":
            self.failed_home("its first iteration was taken back")
        elif outcome == "elsewhere" and (other := Attempt.read(holder)) is not None:
            self._found(other)
        elif outcome in ("released", "elsewhere"):
            self.abort("returned", why)
        elif outcome == "stayed":
            self.abort("job_aborted", f"its worker had not left ({why})")
        else:
            self.enter("RELEASED", parked=False, error=None)  # it had landed after all

    def _found(self, other: Attempt) -> None:
        """One that we did not know of has the worker's place: a mover before us could not write it down."""
        self.attempt.kill()
        self.speaker = None
        self.attempts[-1] = other
        self._write_down()
        if other.alive:
            self._wait_for_inherited()
        else:
            self.gone = True
            self.failed_home(_ENDED)


def _there(attempt: Attempt) -> bool:
    """Whether one that a mover before us has started is there: yes, as long as nobody can tell."""
    try:
        return attempt.alive if attempt.given else attempt.leads
    except OSError:  # out of descriptors, say
        return True
