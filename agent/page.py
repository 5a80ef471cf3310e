"""The page of memory that a worker shares with its agent: one word says whether a pause is armed."""

from __future__ import annotations

import mmap
import os

_SIZE = mmap.PAGESIZE


class Page:
    """Two 64-bit words: the epoch that is armed (0: none), and the step of the last boundary.

    An aligned word is written and read whole on the machines Python runs on; nothing else is assumed.
    """

    def __init__(self, fd: int) -> None:
        """Maps ``fd``, which it takes over."""
        self.fd = fd
        self._memory = mmap.mmap(fd, _SIZE)
        self._words = memoryview(self._memory).cast("Q")

    @classmethod
    def create(cls) -> Page:
        """A fresh page, all zero."""
        fd = os.memfd_create("monkeytree-page", os.MFD_CLOEXEC)
        os.ftruncate(fd, _SIZE)
        return cls(fd)

    @property
    def armed(self) -> int:
        """Epoch of the pause the worker is to take part in; 0: none."""
        return self._words[0]

    @armed.setter
    def armed(self, epoch: int) -> None:
        self._words[0] = epoch

    @property
    def step(self) -> int:
        """The last boundary that the worker passed or stands at."""
        return self._words[1]

    @step.setter
    def step(self, step: int) -> None:
        self._words[1] = step

    def close(self) -> None:
        """Unmap it."""
        self._words.release()
        self._memory.close()
        os.close(self.fd)
