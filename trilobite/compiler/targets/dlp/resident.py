"""Arrays that live in a device's memory: results stay there until somebody looks, inputs that are there
already are not copied again.

Enters: a device. Leaves: NumPy arrays whose bytes are device memory. The simulated DRAM is memory of this
process, so looking at such an array costs nothing here; what a host link would carry is counted apart. A
block is given back when the last array on it is gone.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from trilobite.base.errors import DeviceError
from trilobite.ir.transforms.cells import Cell, is_exposed
from trilobite.processor.device import Device, DeviceArray

Array = np.ndarray[Any, Any]


@dataclass
class Link:
    """Bytes that a host link would have carried: what was copied to the device, what left it as a result."""

    to_device: int = 0
    from_device: int = 0


class _Block(ctypes.Array[ctypes.c_ubyte]):
    """Bytes of device memory as a buffer; it holds the block as long as an array looks at it."""

    _type_ = ctypes.c_ubyte
    _length_ = 0
    held: DeviceArray


def allocated(device: Device, size: int, what: str) -> DeviceArray:
    """A block for a tensor, or an error that names it."""
    try:
        return device.empty((max(size, 1),), np.uint8)
    except DeviceError as error:
        used, total = device.statistics.used, device.statistics.total
        raise DeviceError(
            f"{device.machine.name} has no room for {what}: {size} bytes",
            expected=f"at most {total - used} of {total} bytes, which are free",
            remedy="use a smaller batch, drop compiled functions and tensors, or a machine with more memory",
        ) from error


def resident_array(block: DeviceArray, shape: tuple[int, ...], dtype: Any) -> Array:
    """The block as an array of its own: no copy."""
    if 0 in shape:
        return np.empty(shape, dtype)
    kind: Any = type("Block", (_Block,), {"_length_": block.nbytes, "_type_": ctypes.c_ubyte})
    base = block.device.memory.gdram.ctypes.data + block.address
    buffer: Any = kind.from_address(base)
    buffer.held = block
    found: Array = np.frombuffer(buffer, np.uint8)[: int(np.prod(shape)) * dtype.itemsize].view(dtype)
    return np.ndarray(shape, dtype, found) if dtype.num < 256 else found.reshape(shape)


def address_of(device: Device, array: Array) -> int | None:
    """Where an array lies in the device's memory; None if it does not, or not in one piece."""
    if not array.size or not array.flags.c_contiguous:
        return None
    start = array.ctypes.data - device.memory.gdram.ctypes.data
    inside = start >= 0 and start + array.nbytes <= len(device.memory.gdram)
    return start if inside and start % 256 == 0 else None


def settle(device: Device, cell: Cell, value: Any) -> None:
    """The cell's array in the device's memory, unless it is there or somebody outside may write it."""
    held = cell.held
    if type(held) is not np.ndarray or held is not value or not held.size:
        return
    if address_of(device, held) is not None or is_exposed(held, 0):
        return
    block = allocated(device, held.nbytes, f"state of {held.dtype}{list(held.shape)}")
    block.write(np.ascontiguousarray(held).reshape(-1).view(np.uint8))
    cell.value = resident_array(block, held.shape, held.dtype)
