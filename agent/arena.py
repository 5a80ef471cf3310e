"""A worker's state as one piece of shared memory with a table of named regions.

It is a memfd: the worker hands it to its agent and mover by SCM_RIGHTS, and the mover writes it from where
it lies straight into the destination worker's arena. Nothing is copied or serialised on the way.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monkeytree.errors import MonkeyTreeError

ALIGNMENT = 4_096  # bytes; a page, so that regions can be registered by themselves


class BadLayout(MonkeyTreeError):
    """A table of regions is not one of this arena, or does not fit into its memory."""

    code = "bad_layout"


@dataclass(frozen=True, slots=True)
class Region:
    """A named range of an arena; ``offset`` and ``nbytes`` in bytes."""

    name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The table of an arena: its regions in order, and the size of the whole in bytes."""

    regions: tuple[Region, ...]
    nbytes: int

    @classmethod
    def of(cls, specs: Iterable[tuple[str, int]]) -> Layout:
        """Regions of these names and sizes one after the other, each on a page of its own.

        Raises:
            BadLayout: a name stands twice, or a size is negative.
        """
        regions: list[Region] = []
        names: set[str] = set()
        offset = 0
        for name, nbytes in specs:
            if name in names or nbytes < 0:
                raise BadLayout(f"region {name!r} of {nbytes} bytes: names must differ, sizes be 0 or more")
            names.add(name)
            regions.append(Region(name, offset, nbytes))
            offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return cls(tuple(regions), max(offset, ALIGNMENT))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"nbytes": self.nbytes, "regions": [[r.name, r.offset, r.nbytes] for r in self.regions]}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Layout:
        """From :meth:`document`.

        Raises:
            BadLayout: it is no such document, or a region lies outside.
        """
        try:
            total = int(document["nbytes"])
            regions = tuple(Region(str(n), int(o), int(b)) for n, o, b in document["regions"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadLayout(f"no layout of an arena: {error!r}") from None
        for region in regions:
            if region.offset < 0 or region.nbytes < 0 or region.offset + region.nbytes > total:
                raise BadLayout(f"region {region} lies outside of the {total} bytes of its arena")
        return cls(regions, total)


class Arena:
    """A mapped memfd; :attr:`fd` may be sent to other processes, :meth:`attach` maps it there."""

    def __init__(self, fd: int, layout: Layout, memory: mmap.mmap) -> None:
        self.fd = fd
        self._layout = layout
        self._memory = memory
        self._regions = {region.name: region for region in layout.regions}

    @classmethod
    def create(cls, specs: Sequence[tuple[str, int]], *, prefault: bool = True) -> Arena:
        """An arena with a region for each (name, nbytes), all zero.

        ``prefault`` takes the page faults now: they cost seconds per GB and must not fall into a pause.

        Raises:
            BadLayout: as :meth:`Layout.of`.
            OSError: there is not enough memory.
        """
        layout = Layout.of(specs)
        fd = os.memfd_create("monkeytree-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, layout.nbytes)
            # Nobody who holds the descriptor can shrink it under a mover that reads it (SIGBUS).
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            return cls(fd, layout, _map(fd, layout.nbytes, prefault))
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def attach(cls, fd: int, layout: Layout, *, prefault: bool = False) -> Arena:
        """Map the arena behind ``fd`` (which it takes over).

        Raises:
            BadLayout: the memory is smaller than ``layout`` says.
        """
        size = os.fstat(fd).st_size
        if size < layout.nbytes:
            os.close(fd)
            raise BadLayout(f"the arena has {size:,} bytes, its layout says {layout.nbytes:,}")
        return cls(fd, layout, _map(fd, layout.nbytes, prefault))

    def layout(self) -> Layout:
        """The table of regions."""
        return self._layout

    @property
    def nbytes(self) -> int:
        """Size of the whole in bytes."""
        return self._layout.nbytes

    def view(self, name: str) -> memoryview:
        """The bytes of a region, writable, in place.

        Raises:
            KeyError: there is no such region.
        """
        region = self._regions[name]
        return memoryview(self._memory)[region.offset : region.offset + region.nbytes]

    def whole(self) -> memoryview:
        """All bytes, gaps between regions included."""
        return memoryview(self._memory)

    def close(self) -> None:
        """Unmap it and close :attr:`fd`; views still in use keep the mapping until they go."""
        with contextlib.suppress(BufferError):  # a view is still out: the mapping goes with it
            self._memory.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _map(fd: int, nbytes: int, prefault: bool) -> mmap.mmap:
    flags = mmap.MAP_SHARED | (mmap.MAP_POPULATE if prefault else 0)
    return mmap.mmap(fd, nbytes, flags=flags)
