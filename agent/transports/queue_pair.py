"""One reliable connection over pyverbs: its device objects, what is posted on it, and what completes.

Used by :mod:`.verbs` alone; errors are those of :mod:`.transport`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from ..verbs import LocalEnd, Verbs, address_vector, connect, to_init
from .transport import TransportClosed, TransportFailed, TransportRefused

SLOT = 4_096 + 1  # bytes of the longest message
_SENDS = 64  # work requests in the air
_SLOTS = 64  # messages that may wait to be read
_RECEIVED = 1 << 62  # in wr_id: this slot was filled
_MESSAGE = 0  # wr_id of a SEND; writes have numbers from 1
_SHORTEST_NAP_S, _LONGEST_NAP_S = 20e-6, 1e-3


class Pinned:
    """A writable buffer and its address; it cannot be resized or closed until released."""

    def __init__(self, buffer: memoryview) -> None:
        self.view = buffer.cast("B")
        self._held = (ctypes.c_char * len(self.view)).from_buffer(self.view)
        self.address = ctypes.addressof(self._held)

    def release(self) -> None:
        """Let the buffer go; may be called twice."""
        self._held = (ctypes.c_char * 0)()
        self.view = memoryview(b"")


class QueuePair:
    """A queue pair with the arena it writes from or is written to, and slots for messages both ways.

    Only with ``receiving`` may the peer write, and only into the arena. Any thread may call; one that waits
    when another closes is told so.
    """

    def __init__(self, verbs: Verbs, end: LocalEnd, arena: Pinned, *, receiving: bool) -> None:
        self._verbs = verbs
        self._end = end
        self._closed = False
        self._opened: list[Any] = []  # in the order of making; closed from the last to the first
        self._sending: Counter[int] = Counter()  # wr_id -> work requests in the air
        self._failed: TransportFailed | None = None
        self._guard = threading.Lock()  # of the device objects: pyverbs crashes where they are used closed
        self._arena = arena
        self._in = Pinned(memoryview(bytearray(_SLOTS * SLOT)))
        self._out = Pinned(memoryview(bytearray(SLOT)))
        self.messages: deque[bytes] = deque()
        try:
            with self._device_errors("the device cannot be set up"):
                self._make(receiving)
        except TransportFailed:
            self.close()
            raise

    def _make(self, receiving: bool) -> None:
        enums = self._verbs.enums
        context = self._open(self._verbs.device.Context(name=self._end.device))
        self.mtu = int(context.query_port(self._end.port_num).active_mtu)
        domain = self._open(self._verbs.pd.PD(context))
        self._queue = self._open(self._verbs.cq.CQ(context, _SENDS + _SLOTS))
        access = enums.IBV_ACCESS_LOCAL_WRITE | (enums.IBV_ACCESS_REMOTE_WRITE if receiving else 0)
        self._region = self._pin(domain, self._arena, access)
        self._in_region = self._pin(domain, self._in, enums.IBV_ACCESS_LOCAL_WRITE)
        self._out_region = self._pin(domain, self._out, enums.IBV_ACCESS_LOCAL_WRITE)
        capacity = self._verbs.qp.QPCap(
            max_send_wr=_SENDS, max_recv_wr=_SLOTS, max_send_sge=1, max_recv_sge=1, max_inline_data=0
        )
        wanted = self._verbs.qp.QPInitAttr(
            qp_type=enums.IBV_QPT_RC, scq=self._queue, rcq=self._queue, cap=capacity, sq_sig_all=1
        )
        self._pair = self._open(self._verbs.qp.QP(domain, wanted))
        self.number = int(self._pair.qp_num)
        self.rkey = int(self._region.rkey)
        to_init(self._verbs, self._pair, self._end, access)
        for slot in range(_SLOTS):
            self._offer(slot)

    def connect(
        self,
        remote_gid: str,
        remote_qpn: int,
        remote_psn: int,
        local_psn: int,
        mtu: int,
        udp_source_port: int | None,
    ) -> None:
        """Go through RTR, where the flow label is set, to RTS.

        Raises:
            TransportFailed: the device refuses, or no flow label gives that port.
        """
        try:
            with self._device_errors(f"cannot connect to {remote_gid}"):
                vector = address_vector(self._verbs, self._end, remote_gid, udp_source_port=udp_source_port)
                connect(
                    self._verbs,
                    self._pair,
                    vector,
                    remote_qpn=remote_qpn,
                    remote_psn=remote_psn,
                    local_psn=local_psn,
                    mtu=min(self.mtu, mtu),
                )
        except ValueError as error:
            raise TransportFailed(f"cannot connect to {remote_gid}: {error}") from error

    def write(self, number: int, offset: int, length: int, remote_address: int, rkey: int) -> None:
        """Post one RDMA WRITE of a range of the arena under ``number`` (from 1); there must be room."""
        request = self._request(number, self._region, self._arena.address + offset, length)
        request.opcode = self._verbs.enums.IBV_WR_RDMA_WRITE
        request.set_wr_rdma(rkey, remote_address)
        self._post(request, number)

    def send(self, message: bytes) -> None:
        """Post one SEND of at most :data:`SLOT` bytes; the one before must be :meth:`sent`."""
        if self._closed:
            raise TransportClosed("closed")
        self._out.view[: len(message)] = message
        self._post(self._request(_MESSAGE, self._out_region, self._out.address, len(message)), _MESSAGE)

    def sent(self) -> bool:
        """Whether the peer has taken the last message."""
        return self.written(_MESSAGE)

    def written(self, number: int) -> bool:
        """Whether all writes under ``number`` are done."""
        return self._sending[number] == 0

    def has_room(self) -> bool:
        """Whether another work request can be posted."""
        return self._sending.total() < _SENDS

    def until(self, ready: Callable[[], bool], limit_s: float) -> bool:
        """Take completions until ``ready()``, or for ``limit_s`` seconds; whether it is ready.

        Raises:
            TransportFailed: what went wrong before that, with its kind.
        """
        ends = time.monotonic() + limit_s
        nap = _SHORTEST_NAP_S
        while True:
            while self._take_completions():
                nap = _SHORTEST_NAP_S
            if ready():
                return True
            if self._failed is not None:
                raise self._failed
            if time.monotonic() >= ends:
                return False
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP_S)

    def close(self) -> None:
        """Destroy the queue pair, then revoke the registrations, then leave the device; never raises."""
        with self._guard:
            self._closed = True
            while self._opened:
                with contextlib.suppress(Exception):  # a device that is gone must not keep the others open
                    self._opened.pop().close()
            for pinned in (self._arena, self._in, self._out):
                pinned.release()

    def _open(self, made: Any) -> Any:
        self._opened.append(made)
        return made

    def _pin(self, domain: Any, memory: Pinned, access: int) -> Any:
        length = len(memory.view)
        return self._open(self._verbs.mr.MR(domain, length=length, access=access, address=memory.address))

    def _request(self, number: int, region: Any, address: int, length: int) -> Any:
        enums = self._verbs.enums
        return self._verbs.wr.SendWR(
            wr_id=number,
            opcode=enums.IBV_WR_SEND,
            num_sge=1,
            sg=[self._verbs.wr.SGE(address, length, region.lkey)],
            send_flags=enums.IBV_SEND_SIGNALED,
        )

    def _post(self, request: Any, number: int) -> None:
        with self._guard, self._device_errors("the device took no work request"):
            if self._closed:
                raise TransportClosed("closed")
            self._pair.post_send(request)
            self._sending[number] += 1

    def _offer(self, slot: int) -> None:
        element = self._verbs.wr.SGE(self._in.address + slot * SLOT, SLOT, self._in_region.lkey)
        self._pair.post_recv(self._verbs.wr.RecvWR(wr_id=_RECEIVED | slot, num_sge=1, sg=[element]))

    def _take_completions(self) -> bool:
        """Whether there were any."""
        with self._guard, self._device_errors("completions cannot be read"):
            if self._closed:
                raise TransportClosed("closed")
            count, completions = self._queue.poll(16)
            for completion in completions[:count]:
                self._complete(completion)
        return bool(count)

    def _complete(self, completion: Any) -> None:
        if completion.status != self._verbs.enums.IBV_WC_SUCCESS:
            self._failed = self._failed or self._error(completion.status)
        elif completion.wr_id & _RECEIVED:
            slot = completion.wr_id & ~_RECEIVED
            self.messages.append(bytes(self._in.view[slot * SLOT : slot * SLOT + completion.byte_len]))
            self._offer(slot)
        else:
            self._sending[completion.wr_id] -= 1

    def _error(self, status: int) -> TransportFailed:
        enums = self._verbs.enums
        if status in (enums.IBV_WC_RETRY_EXC_ERR, enums.IBV_WC_RNR_RETRY_EXC_ERR, enums.IBV_WC_WR_FLUSH_ERR):
            return TransportClosed(f"the peer went away (work completion status {status})")
        if status in (enums.IBV_WC_REM_ACCESS_ERR, enums.IBV_WC_REM_INV_REQ_ERR):
            return TransportRefused(f"the peer's device refused the write (work completion status {status})")
        return TransportFailed(f"the device failed (work completion status {status})")

    @contextlib.contextmanager
    def _device_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._verbs.pyverbs_error.PyverbsError as error:
            cure = ""
            if getattr(error, "error_code", None) == errno.ENOMEM:
                cure = "; is the limit on locked memory high enough (ulimit -l)?"
            raise TransportFailed(f"{what}: {error}{cure}") from error
