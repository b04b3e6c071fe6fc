"""A small host API in the manner of CNRT, for host programs that are ported to Python.

    rt = Cnrt("mlu370-x4")
    x = rt.cnrtMalloc(4 * n)
    rt.cnrtMemcpy(x, host_array, 4 * n, cnrtMemcpyHostToDev)
    queue = rt.cnrtQueueCreate()
    rt.launch(BangKernel("kernel.mlu", "k"), (4, 1, 1), CNRT_FUNC_TYPE_UNION1, queue, [x, n])
    rt.cnrtQueueSync(queue)

Queues run what they are given in order; time is the processor's, summed up a queue, and notifiers read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.processor.device import Device, DeviceArray, Kernel
from trilobite.processor.isa.formats import Array
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.machine import Machine
from trilobite.processor.sim.run import Run

cnrtMemcpyHostToDev, cnrtMemcpyDevToHost, cnrtMemcpyDevToDev, cnrtMemcpyHostToHost = range(4)
CNRT_MEM_TRANS_DIR_HOST2DEV, CNRT_MEM_TRANS_DIR_DEV2HOST, CNRT_MEM_TRANS_DIR_DEV2DEV = range(3)
CNRT_FUNC_TYPE_BLOCK, CNRT_FUNC_TYPE_UNION1, CNRT_FUNC_TYPE_UNION2 = 1, 4, 8
CNRT_FUNC_TYPE_UNION4, CNRT_FUNC_TYPE_UNION8, CNRT_FUNC_TYPE_UNION16 = 16, 32, 64
TASKS = {1: "block", 4: "union1", 8: "union2", 16: "union4", 32: "union8", 64: "union16"}


@dataclass(frozen=True)
class DevicePointer:
    """An address on the device; adding to it counts bytes."""

    address: int

    def __add__(self, offset: int) -> DevicePointer:
        return DevicePointer(self.address + offset)


@dataclass(eq=False)
class Queue:
    """Launches in order; `microseconds` is what they took on the processor."""

    microseconds: float = 0.0
    runs: list[Run] = field(default_factory=list)
    is_open: bool = True


@dataclass(eq=False)
class Notifier:
    """A mark in a queue."""

    microseconds: float | None = None


class Cnrt:
    """The runtime of one device."""

    def __init__(self, machine: str | Machine = "mlu370-x4") -> None:
        self.device = Device(machine)
        self._blocks: dict[int, DeviceArray] = {}

    # memory
    def cnrtMalloc(self, size: int) -> DevicePointer:
        block = self.device.empty(int(size), "uint8")
        self._blocks[block.address] = block
        return DevicePointer(block.address)

    @property
    def allocated(self) -> int:
        """Bytes in blocks that are not free yet."""
        return sum(block.nbytes for block in self._blocks.values())

    def cnrtFree(self, pointer: DevicePointer) -> None:
        block = self._blocks.pop(pointer.address, None)
        if block is None:
            raise DeviceError(
                f"{pointer.address:#x} was not allocated, or is free already",
                expected="what cnrtMalloc gave",
                remedy="free every block once",
            )
        block.free()

    def _bytes(self, pointer: DevicePointer, size: int) -> Array:
        for start, block in self._blocks.items():
            if start <= pointer.address and pointer.address + size <= start + block.nbytes:
                at = pointer.address - start
                self.device.memory.unwritten.pop(start, None)
                return block._view()[at : at + size]
        raise DeviceError(
            f"{size} bytes at {pointer.address:#x} lie in no allocated block",
            expected="a range inside one block",
            remedy="check the pointer and the size",
        )

    def cnrtMemcpy(self, dst: Any, src: Any, size: int, direction: int) -> None:
        """Host ends are NumPy arrays."""
        if direction == cnrtMemcpyHostToDev:
            self._bytes(dst, size)[:] = _host(src)[:size]
        elif direction == cnrtMemcpyDevToHost:
            _host(dst)[:size] = self._bytes(src, size)
        elif direction == cnrtMemcpyDevToDev:
            self._bytes(dst, size)[:] = self._bytes(src, size).copy()
        elif direction == cnrtMemcpyHostToHost:
            _host(dst)[:size] = _host(src)[:size]
        else:
            raise ArgumentError(
                f"there is no copy direction {direction}",
                expected="cnrtMemcpyHostToDev and the like",
                remedy="use one",
            )

    def cnrtMemset(self, dst: DevicePointer, value: int, size: int) -> None:
        self._bytes(dst, size)[:] = value & 0xFF

    # queues and notifiers
    def cnrtQueueCreate(self) -> Queue:
        return Queue()

    def cnrtQueueSync(self, queue: Queue) -> None:
        _require_open(queue)

    def cnrtQueueDestroy(self, queue: Queue) -> None:
        _require_open(queue)
        queue.is_open = False

    def cnrtNotifierCreate(self) -> Notifier:
        return Notifier()

    def cnrtPlaceNotifier(self, notifier: Notifier, queue: Queue) -> None:
        _require_open(queue)
        notifier.microseconds = queue.microseconds

    def cnrtNotifierDuration(self, start: Notifier, end: Notifier) -> float:
        """Microseconds of the processor between two marks."""
        if start.microseconds is None or end.microseconds is None:
            raise DeviceError(
                "a notifier was never placed",
                expected="cnrtPlaceNotifier for both",
                remedy="place it in a queue",
            )
        return end.microseconds - start.microseconds

    # launches
    def launch(
        self,
        kernel: BangKernel | Kernel,
        dim: tuple[int, int, int],
        task: int,
        queue: Queue,
        args: Sequence[Any],
    ) -> Run:
        """What `kernel<<<dim, task, queue>>>(args)` does."""
        _require_open(queue)
        if task not in TASKS:
            raise ArgumentError(
                f"there is no task type {task}",
                expected="CNRT_FUNC_TYPE_BLOCK or _UNION1 to _UNION16",
                remedy="use one",
            )
        words = [arg.address if isinstance(arg, DevicePointer) else arg for arg in args]
        run = self.device.launch(kernel, words, dim, TASKS[task])
        queue.microseconds += run.seconds * 1e6
        queue.runs.append(run)
        return run


def _require_open(queue: Queue) -> None:
    if not queue.is_open:
        raise DeviceError("the queue was destroyed", expected="a queue that is open", remedy="create another")


def _host(values: Any) -> Array:
    """The bytes of a contiguous array, not a copy."""
    given = np.asarray(values)
    if not given.flags.c_contiguous:
        raise ArgumentError(
            "a host array must lie in one piece",
            expected="a C-contiguous array",
            remedy="np.ascontiguousarray",
        )
    flat: Array = given.reshape(-1).view(np.uint8)
    return flat
