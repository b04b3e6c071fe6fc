"""Carrying values between our own processes: small ones by the pipe, large arrays by shared memory.

In: any picklable value on one side. Out: an equal one on the other. Arrays leave the pickle as raw buffers;
together they go into a memory file without a name, whose descriptor travels over the pipe. Nothing can be
left behind in the file system, however a process ends. Only bytes from a process that this package has
started are ever unpickled here.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

INLINE = 1 << 16  # below this the pipe is faster than a memory file
_ALIGN = 64


class _Pickler(pickle.Pickler):
    """Also takes out the data of dtypes that the buffer protocol does not know: bfloat16, FP8, dates."""

    def reducer_override(self, value: Any) -> Any:
        if (
            type(value) is np.ndarray
            and value.dtype.kind in "VMm"
            and not value.dtype.hasobject
            and value.size
        ):
            flat: Any = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            return _rebuild, (pickle.PickleBuffer(flat), value.dtype, value.shape)
        return NotImplemented


def _rebuild(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)


def dump(value: Any) -> tuple[bytes, list[memoryview]]:
    """A pickle, and the buffers that it refers to."""
    buffers: list[pickle.PickleBuffer] = []
    head = io.BytesIO()
    _Pickler(head, 5, buffer_callback=buffers.append).dump(value)
    return head.getvalue(), [b.raw() for b in buffers]


def _places(sizes: Sequence[int]) -> tuple[list[int], int]:
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += size + -size % _ALIGN
    return places, end


class MemoryFile:
    """Buffers side by side in memory that has a descriptor but no name."""

    def __init__(self, buffers: Sequence[memoryview]) -> None:
        self.sizes = [b.nbytes for b in buffers]
        places, self.length = _places(self.sizes)
        self.fd = _anonymous()
        try:
            os.ftruncate(self.fd, self.length)
            for place, buffer in zip(places, buffers, strict=True):
                _write(self.fd, buffer, place)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.fd)


def _write(fd: int, buffer: memoryview, place: int) -> None:
    """Twice as fast as mapping the file and copying: no page has to be faulted in."""
    done = 0
    while done < buffer.nbytes:
        done += os.pwrite(fd, buffer[done:], place + done)


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("trilobite-data", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def send(pipe: Connection, kind: str, value: Any) -> None:
    """Send one message; `receive` on the other side returns it."""
    head, buffers = dump(value)
    send_dumped(pipe, kind, head, buffers, None)


def send_dumped(
    pipe: Connection, kind: str, head: bytes, buffers: Sequence[memoryview], memory: MemoryFile | None
) -> None:
    """Send what `dump` gave; `memory` may hold the buffers already, to be shared by several receivers."""
    from multiprocessing.reduction import send_handle

    sizes = [b.nbytes for b in buffers]
    if memory is None and sum(sizes) < INLINE:
        pipe.send((kind, head, [bytes(b) for b in buffers], None))
        return
    file = MemoryFile(buffers) if memory is None else memory
    try:
        pipe.send((kind, head, None, sizes))
        send_handle(pipe, file.fd, None)
    finally:
        if memory is None:
            file.close()


def receive(pipe: Connection, *, share: bool = False) -> tuple[str, Any]:
    """One message. Its arrays are our own; with `share`, their pages are common until written to."""
    from multiprocessing.reduction import recv_handle

    kind, head, inline, sizes = pipe.recv()
    if sizes is None:
        return kind, pickle.loads(head, buffers=[bytearray(b) for b in inline])
    fd = recv_handle(pipe)
    try:
        buffers = _map(fd, sizes) if share else _copy(fd, sizes)
    finally:
        os.close(fd)
    return kind, pickle.loads(head, buffers=buffers)


def _copy(fd: int, sizes: Sequence[int]) -> list[npt.NDArray[np.uint8]]:
    """The buffers as copies: mappings would each hold a descriptor for as long as a batch lives."""
    buffers = [np.empty(size, np.uint8) for size in sizes]
    for place, buffer in zip(_places(sizes)[0], buffers, strict=True):
        done = 0
        while done < buffer.size:
            done += os.preadv(fd, [buffer[done:].data], place + done)
    return buffers


def _map(fd: int, sizes: Sequence[int]) -> list[memoryview]:
    places, length = _places(sizes)
    memory = memoryview(mmap.mmap(fd, length, access=mmap.ACCESS_COPY))
    return [memory[place : place + size] for place, size in zip(places, sizes, strict=True)]
