"""A parked state in a file of the host's memory: it outlives the worker, the mover and the agent.

The file lies in tmpfs, the arena first and the worker's extras behind it. The *record* beside the mover's
last words, on disk, says what it holds: hashes by chunk, and all that the worker's successor must know. It
is synced before the worker hears that it may go, so a state without a record is one whose worker is there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from monkeytree.errors import MonkeyTreeError

from .arena import Arena, Layout

_CHUNK = 8 * 2**20
_THREADS = 2
KEPT_S = 86_400.0
"""How long a state is kept that could not go home, or whose move the journal does not tell of."""
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class ParkingFailed(MonkeyTreeError):
    """There is no room, or the folder is not ours alone: the worker keeps its state."""

    code = "parking_failed"


class ParkedLost(MonkeyTreeError):
    """The file is gone (the host has restarted), or does not hold what its record says."""

    code = "parked_lost"


@dataclass(frozen=True)
class Record:
    """What the file holds.

    Attributes:
        boot: the kernel's boot id: memory, and the clock of ``paused_at``, are of one boot only.
        paused_at: ``time.monotonic`` when the worker paused.
        layout: of the arena, as a document.
        extras: bytes behind the arena.
        hashes: xxh3_128 of each 8 MiB of the file.
        about: ``step``, ``pause``, ``orders`` and ``identity`` as the worker offered them.
        command, env: what starts the worker's successor.
    """

    boot: str
    paused_at: float
    layout: Mapping[str, Any]
    extras: int
    hashes: tuple[str, ...]
    about: Mapping[str, Any]
    command: tuple[str, ...]
    env: Mapping[str, str]


class ParkedFile:
    """The file of one move, and its record. One process uses it at a time: the move's mover."""

    def __init__(self, file: Path, record: Path) -> None:
        self.file = file
        self.record = record

    def reserve(self, layout: Layout) -> Arena:
        """Take the memory now, before the pause; the arena that the state will lie in.

        Raises:
            ParkingFailed: there is too little, or the folder is somebody else's.
        """
        _own(self.file.parent)
        self.remove()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self.file, flags, 0o600)
            try:
                os.posix_fallocate(fd, 0, layout.nbytes)
                return Arena.attach(os.dup(fd), layout, prefault=True)
            finally:
                os.close(fd)
        except OSError as error:
            self.remove()
            free = _free(self.file.parent)
            raise ParkingFailed(
                f"cannot keep {layout.nbytes:,} bytes in {self.file.parent} ({error.strerror}; {free:,} are "
                "free there): give the node's /dev/shm more room"
            ) from None

    def fill(self, arena: Arena, source: memoryview, extras: bytes, record: Record) -> None:
        """Copy the state into ``arena``, as :meth:`reserve` gave it, and write the record of it.

        Raises:
            ParkingFailed: it cannot be written.
        """
        try:
            with ThreadPoolExecutor(_THREADS, thread_name_prefix="park") as pool:
                # Each works in the kernel and in xxhash, without the interpreter's lock.
                hashes = list(pool.map(lambda at: _write(arena.fd, source, at, 0), _starts(len(source))))
            hashes += [_write(arena.fd, memoryview(extras), at, len(source)) for at in _starts(len(extras))]
            self._write_record({**asdict(record), "hashes": hashes, "extras": len(extras)})
        except OSError as error:
            raise ParkingFailed(f"cannot keep the state in {self.file}: {error.strerror}") from None

    def read(self) -> Record | None:
        """The record; None where there is none of this boot."""
        try:
            document: dict[str, Any] = json.loads(self.record.read_bytes())
            document |= {name: tuple(document[name]) for name in ("hashes", "command")}
            record = Record(**document)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return record if record.boot == boot() and self.file.exists() else None

    def attach(self, record: Record) -> tuple[Arena, bytes]:
        """The arena and the extras, every byte checked.

        Raises:
            ParkedLost: something is missing, or other than it was.
            OSError: it cannot be read now (out of descriptors, memory): later it may.
        """
        layout = Layout.read(record.layout)
        try:
            fd = os.open(self.file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            raise ParkedLost(f"the parked state in {self.file} cannot be read: {error.strerror}") from None
        if os.fstat(fd).st_size != layout.nbytes + record.extras:
            os.close(fd)
            raise ParkedLost(
                f"the parked state in {self.file} is not {layout.nbytes + record.extras:,} bytes"
            )
        arena = Arena.attach(fd, layout, prefault=True)
        extras = os.pread(arena.fd, record.extras, layout.nbytes)
        whole = arena.whole()
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="check") as pool:
            found = list(pool.map(lambda at: _digest(whole[at : at + _CHUNK]), _starts(layout.nbytes)))
        found += [_digest(memoryview(extras)[at : at + _CHUNK]) for at in _starts(len(extras))]
        if tuple(found) != record.hashes:
            raise ParkedLost(f"the parked state in {self.file} is not what it was when its worker left")
        return arena, extras

    def remove(self) -> None:
        """Both, where they are: the state is needed no more."""
        for path in (self.record, self.file):
            path.unlink(missing_ok=True)

    def why_lost(self) -> str:
        """For who is told that nobody takes it up."""
        if not self.file.exists():
            return "the parked state is gone: its host has restarted"
        return f"no mover could take the parked state up. {self.where_it_is()}"

    def where_it_is(self) -> str:
        """For who has to see to it."""
        return (
            f"Its state is kept in {self.file} for {KEPT_S / 3_600:g} hours, with its record {self.record}: "
            "read it as docs/agents.md shows, or delete both to have the memory back"
        )

    def _write_record(self, document: Mapping[str, Any]) -> None:
        fresh = self.record.with_name(self.record.name + "-new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _all(fd, memoryview(json.dumps(document).encode()))
            os.fsync(fd)
        finally:
            os.close(fd)
        fresh.replace(self.record)
        folder = os.open(self.record.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def boot() -> str:
    """The kernel's boot id."""
    return _BOOT.read_text("ascii").strip()


def folder_of(data: Path, memory: Path) -> Path:
    """Where the agent with that data folder keeps parked states: one folder an agent, below ``memory``."""
    return memory / f"monkeytree-{os.getuid()}-{_name_of(data)}"


def _name_of(data: Path) -> str:
    """Drawn once: agents in containers that share /dev/shm may call their folders alike, and sweep theirs."""
    file = data / "memory"
    with contextlib.suppress(OSError, ValueError):
        if re.fullmatch("[0-9a-f]{16}", name := file.read_text("ascii").strip()):
            return name
    name = secrets.token_hex(8)
    fresh = file.with_suffix(".new")
    fresh.write_text(name + "\n", "ascii")
    fresh.replace(file)
    return name


def sweep(folder: Path, kept: Collection[Path]) -> None:
    """Remove states that no move needs any more."""
    with contextlib.suppress(OSError, ParkingFailed):
        _own(folder, make=False)
        for file in folder.iterdir():
            if file not in kept:
                with contextlib.suppress(OSError):  # a folder, say: the others go all the same
                    file.unlink()


def _own(folder: Path, *, make: bool = True) -> None:
    """/dev/shm is everybody's: a folder that somebody else has put there is not used."""
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700, parents=True)
        found = folder.lstat()
    except OSError as error:
        raise ParkingFailed(f"cannot make the folder {folder}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ParkingFailed(f"{folder} must be a folder of this user alone: remove it")


def _free(folder: Path) -> int:
    with contextlib.suppress(OSError):
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize
    return 0


def _starts(nbytes: int) -> Iterator[int]:
    return iter(range(0, nbytes, _CHUNK))


def _write(fd: int, source: memoryview, at: int, offset: int) -> str:
    """Write a chunk of ``source`` to ``offset`` and where it lies; its hash."""
    chunk = source[at : at + _CHUNK]
    _all(fd, chunk, offset + at)
    return _digest(chunk)


def _all(fd: int, data: memoryview, at: int | None = None) -> None:
    while data:
        done = os.write(fd, data) if at is None else os.pwrite(fd, data, at)
        data = data[done:]
        at = None if at is None else at + done


def _digest(chunk: memoryview) -> str:
    return xxhash.xxh3_128_hexdigest(chunk)


def record_of(body: Mapping[str, Any], paused_at: float, command: tuple[str, ...], env: Any) -> Record:
    """The record of a state as its worker offered it (``fill`` adds what it finds)."""
    about = {name: body.get(name) for name in ("step", "pause", "orders", "identity")}
    return Record(boot(), paused_at, body["layout"], 0, (), about, command, dict(env))


def young(records: Iterator[Path], now: float) -> set[Path]:
    """Of those records, the ones written less than :data:`KEPT_S` before the Unix time ``now``."""
    found = set()
    for record in records:
        with contextlib.suppress(OSError):
            if record.stat().st_mtime > now - KEPT_S:
                found.add(record)
    return found


def sizes(folder: Path) -> dict[Path, int]:
    """The states that lie in a folder, and their bytes; none where the folder is not ours alone."""
    found = {}
    with contextlib.suppress(OSError, ParkingFailed):
        _own(folder, make=False)
        for file in folder.iterdir():
            with contextlib.suppress(OSError):
                found[file] = file.lstat().st_size
    return found


def age(record: Record) -> float:
    """Seconds since the worker paused."""
    return time.monotonic() - record.paused_at
