"""Which bytes of every memory were ever written: the shadow behind the memory checker.

Enters: regions. Leaves: arrays of the same geometry that say byte by byte whether something wrote there; 1 is
written. Scratchpads and LDRAM begin a launch unwritten; a DRAM block is as the host and earlier checked
launches left it. Constants are always written.
"""

from __future__ import annotations

import numpy as np

from trilobite.processor.isa.formats import I4, Array
from trilobite.processor.isa.row import CODE, GDRAM, LDRAM, SRAM, Region
from trilobite.processor.sim.memory import Memory, Place, lazy_bytes
from trilobite.processor.tools.spans import Span, home


class Definedness(Memory):
    """A memory of the same layout whose bytes are 1 where the real one holds something that was written."""

    def __init__(self, memory: Memory) -> None:
        self.machine, self.code, self.blocks = memory.machine, memory.code, memory.blocks
        self.aligned = False  # the access itself faults where it must
        self.gdram = memory.gdram  # for its size; the shadow of DRAM is kept block by block
        self.unwritten = memory.unwritten
        self._real = memory
        self._pads = {}

    def pad(self, space: str, cluster: int, core: int) -> Array:
        key = (space, cluster, 0 if space == SRAM else core)
        found = self._pads.get(key)
        if found is None:
            size = self._real.size(space)
            found = self._pads[key] = lazy_bytes(size) if space == LDRAM else np.zeros(size, np.uint8)
        return found

    def locate(self, place: Place, address: int, low: int, high: int, spaces: str) -> tuple[Array, int]:
        key, offset = home(self, place, address)
        if key[0] == GDRAM:
            return self.unwritten[key[1]], offset
        return self.pad(*key), offset

    def bytes(self, place: Place, region: Region) -> Array | None:
        """The region's shadow; None where everything is written for certain."""
        if region.count == 0:
            return None
        key, _ = home(self, place, region.address)
        if key[0] == CODE or (key[0] == GDRAM and key[1] not in self.unwritten):
            return None
        return self.view(place, region)

    def _flags(self, span: Span) -> Array | None:
        """The span's shadow as truth values; None where everything is written for certain."""
        key = span.key
        if key[0] == GDRAM:
            flat = self.unwritten.get(key[1])
        else:
            flat = None if key[0] == CODE else self.pad(*key)
        if flat is None:
            return None
        if not span.axes:
            return flat[span.low : span.high].view(np.bool_)
        shape = (*(extent for extent, _ in span.axes), span.row)
        strides = (*(stride for _, stride in span.axes), 1)
        return np.ndarray(shape, np.bool_, flat, span.low, strides)

    def is_defined(self, span: Span) -> bool:
        flags = self._flags(span)
        return flags is None or bool(flags.all())

    def define(self, span: Span) -> None:
        flags = self._flags(span)
        if flags is not None:
            flags[...] = True

    def undefined(self, place: Place, region: Region) -> Array | None:
        """Per element of the region, whether a byte of it is unwritten; None if none is."""
        raw = self.bytes(place, region)
        if raw is None or raw.view(np.bool_).all():
            return None
        fmt, flat = region.fmt, np.ascontiguousarray(raw).reshape(-1)
        if fmt is I4:
            return np.repeat(flat == 0, 2)[: region.count].reshape(region.shape)
        return np.asarray((flat.reshape(-1, fmt.align) == 0).any(axis=1).reshape(region.shape))

    def write_mask(self, place: Place, region: Region, undefined: Array | None) -> None:
        """Records a write: defined, but for the elements of the mask."""
        raw = self.bytes(place, region)
        if raw is None:
            return
        if undefined is None:
            raw[...] = 1
        elif region.fmt is I4:
            padded = np.append(undefined.reshape(-1), [False] * (undefined.size % 2))
            raw[...] = ~padded.reshape(-1, 2).any(axis=1).reshape(raw.shape)
        else:
            raw[...] = np.repeat(~undefined.reshape(-1), region.fmt.align).reshape(raw.shape)
