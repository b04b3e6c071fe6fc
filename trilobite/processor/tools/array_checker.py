"""The checker of arrays: accesses that leave the array they were meant for, and results that lie on sources.

Enters: every access of a launch, and what the compiler knows of it (`KernelProgram.notes`): the arrays that
an operand may lie in, the intrinsic and its parameters. Leaves: one `Finding` for a line and array. Of an
operand whose array is not known, the array that its first byte lies in is taken. Programs without notes have
no arrays. Accesses that leave a whole memory are faults of the simulator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import Operands, Region
from trilobite.processor.lang.bounds import Array, CallNote
from trilobite.processor.sim.core import Core
from trilobite.processor.tools.findings import Finding, site_of
from trilobite.processor.tools.spans import Span
from trilobite.processor.tools.wording import Wording

OWNER = ~(0xFFFF << 40)  # an address without the cluster and core that it names
FAR = 1 << 39  # bytes: further before an array, an address means another memory
LEAST_WORD = 4  # bytes: vectors of larger elements may begin at multiples of these
MOST_PAIRS = 1 << 22  # rows times rows
MOST_ROWS = 1 << 16  # rows of a strided access that are held against another's


class ArrayChecker:
    def __init__(self, program: Program, report: Callable[[Finding], None]) -> None:
        self.notes: Mapping[int, CallNote] = getattr(program, "notes", {})
        self._all = declared_arrays(program)
        self._report = report
        self._said = Wording(program)
        self._seen: set[tuple[str, str]] = set()
        # by instruction: the arrays of its operands, and the names of those that it writes and reads
        self._operands: dict[int, tuple[Mapping[str, Sequence[Array]], tuple[str, ...], tuple[str, ...]]] = {}

    def tensor(
        self, core: Core, queue: str, o: Operands, reads: Sequence[Region], writes: Sequence[Region],
        spans: tuple[Sequence[Span], Sequence[Span]],
    ) -> None:  # fmt: skip
        note = self.notes.get(core.pc)
        if note is None:
            return
        found = self._operands.get(core.pc)
        if found is None:
            written, read = (
                tuple(name for name in o.values if not names or name in names)
                for names in (note.written, note.read)
            )
            found = self._operands[core.pc] = (dict(note.arrays), written, read)
        known, written, read = found
        for regions, names in ((writes, written), (reads, read)):
            for region in regions:
                if region.count:
                    extent = _extent(region)
                    operand = _operand(o, region, extent, known, names)
                    self._judge(core, queue, note, operand, extent, known.get(operand, ()))
                    if region.address & (min(region.fmt.align, LEAST_WORD) - 1):
                        self._between(core, queue, note, operand, region)
        if note.apart:
            self._apart(core, queue, note, spans)

    def scalar(self, core: Core, place: Region) -> None:
        note = self.notes.get(core.pc)
        if note is not None:
            self._judge(core, "control", note, "", _extent(place), dict(note.arrays).get("", ()))

    def _judge(
        self, core: Core, queue: str, note: CallNote, operand: str, extent: tuple[int, int],
        arrays: Sequence[Array],
    ) -> None:  # fmt: skip
        low, high = extent[0] & OWNER, extent[1] & OWNER
        if any(0 < array.low - extent[0] < FAR for array in arrays):  # before the memory begins
            low, high = extent
        for array in arrays:
            if array.low <= low and high <= array.high:
                return
        taken = arrays or [array for array in self._all if array.low <= low < array.high]
        if not taken or any(array.low <= low and high <= array.high for array in taken):
            return
        nearest = min(taken, key=lambda array: max(array.low - low, high - array.high))
        key = (self._said.line(core.pc), nearest.name)
        if key not in self._seen:
            self._seen.add(key)
            self._report(_outside(core, queue, note, operand, nearest, low, high))

    def _between(self, core: Core, queue: str, note: CallNote, operand: str, region: Region) -> None:
        """Words of 64 bits often lie behind an odd number of others; of smaller elements it is a slip."""
        key = (self._said.line(core.pc), "alignment")
        if key not in self._seen:
            self._seen.add(key)
            size, who = region.fmt.align, dict(note.parameters).get(operand, operand)
            what = f"{note.name}: {who} lies at {self._said.address(region.address)}"
            text = f"{what}, between multiples of the {size} bytes of its elements"
            expected = f"vectors that begin at multiples of {min(size, LEAST_WORD)} bytes"
            remedy = "round the offset of the vector up to a multiple of its element"
            self._report(Finding("alignment", text, (site_of(core, queue),), expected, remedy))

    def _apart(
        self, core: Core, queue: str, note: CallNote, spans: tuple[Sequence[Span], Sequence[Span]]
    ) -> None:
        for read, write in product(*spans):
            if read.key != write.key or read.low >= write.high or write.low >= read.high or read == write:
                continue
            if note.in_order and _is_read_in_time(read, write, note.in_order):
                continue
            key = (self._said.line(core.pc), "overlap")
            if key not in self._seen and _meet(read, write):
                self._seen.add(key)
                self._report(_overlap(self._said, core, queue, note, read, write))


def _operand(
    o: Operands,
    region: Region,
    extent: tuple[int, int],
    known: Mapping[str, Sequence[Array]],
    names: Sequence[str],
) -> str:
    """The operand, one of those that are read or written, that a region belongs to; of several at one address
    the one whose array holds it: one that points behind its own array, for no elements, may have the address
    of the next."""
    values, address = o.values, region.address
    found = [name for name in names if values[name] == address]
    if len(found) <= 1:
        return found[0] if found else ""
    low, high = extent[0] & OWNER, extent[1] & OWNER
    inside = (n for n in found if any(a.low <= low and high <= a.high for a in known.get(n, ())))
    return next(inside, found[0] if found else "")


def declared_arrays(program: Program) -> list[Array]:
    """All arrays of scratchpads, in no function's frame."""
    found = []
    for place in getattr(program, "buffers", ()):
        if place.space in ("nram", "wram", "sram", "ldram", "acc"):
            low = address(LETTERS[place.space], place.offset)
            found.append(Array(place.local[0] or place.name, low, low + place.bytes, 1, place.location))
    return found


def _extent(region: Region) -> tuple[int, int]:
    """The first byte, and the one behind the last."""
    low = high = region.address
    if len(region.shape) == 1:
        return low, high + region.fmt.bytes(region.shape[0])
    for extent, stride in zip(region.shape[:-1], region.strides[:-1], strict=True):
        low += min(0, (extent - 1) * stride)
        high += max(0, (extent - 1) * stride)
    return low, high + region.fmt.bytes(region.shape[-1])


def _outside(
    core: Core, queue: str, note: CallNote, operand: str, array: Array, low: int, high: int
) -> Finding:
    size, first, last = array.high - array.low, low - array.low, high - array.low
    who = dict(note.parameters).get(operand, operand)
    what = f"{note.name}: {who}" if note.name and who else note.name or "a scalar access"
    over, under = max(0, last - size), max(0, -first)
    amount = f"{over} bytes too many" if over else f"{under} bytes too early"
    text = (
        f"outside the array {array.name}: {what} touches bytes {first} to {last} of its {size}"
        f"{_elements(array, first, last)}, {amount}"
    )
    expected = f"bytes 0 to {size} of {array.name}, declared at {array.declared}"
    remedy = f"touch less, or make {array.name} larger by {over}" if over else f"begin inside {array.name}"
    return Finding("bounds", text, (site_of(core, queue),), expected, remedy)


def _elements(array: Array, first: int, last: int) -> str:
    if array.element < 2 or first % array.element or last % array.element:
        return ""
    count = (array.high - array.low) // array.element
    return f" ({array.name}[{first // array.element}] to [{last // array.element - 1}] of {count})"


def _meet(read: Span, write: Span) -> bool:
    """Whether two accesses whose ranges meet have a byte in common; rows are compared one by one, as far as
    there are few."""
    a, b = _rows(read), _rows(write)
    if a is None or b is None:
        return True
    at = np.searchsorted(a, b, side="right")
    before = np.where(at > 0, a[np.maximum(at - 1, 0)] + read.row > b, False)
    behind = np.where(at < a.size, a[np.minimum(at, a.size - 1)] < b + write.row, False)
    return bool((before | behind).any())


def _common(read: Span, write: Span) -> str:
    """How many bytes are both read and written; rows of one access do not lie on each other."""
    a, b = _rows(read), _rows(write)
    if a is None or b is None or a.size * b.size > MOST_PAIRS:
        return f"up to {min(read.high, write.high) - max(read.low, write.low)} bytes"
    ends = np.minimum(a[:, None] + read.row, b + write.row)
    return f"{int(np.maximum(ends - np.maximum(a[:, None], b), 0).sum())} bytes"


def _is_read_in_time(read: Span, write: Span, in_order: str) -> bool:
    """Whether everything is read before the result reaches it: of elements, which a vector that begins with
    its source holds before it writes; of pieces, which go one after the other, each from front to back."""
    if in_order == "elements":
        return read.low == write.low or (read.low >= write.low and read.high >= write.high)
    if not read.axes and not write.axes:
        return False  # one piece
    piece = min(read.row, write.row)
    a, b = _pieces(read, piece), _pieces(write, piece)
    if a is None or b is None or a.size != b.size or (np.diff(a) < 0).any() or (np.diff(b) < 0).any():
        return False
    return bool((b <= a).all() and (b[:-1] + piece <= a[1:]).all())


def _pieces(span: Span, piece: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    """Where pieces of this size begin, in ascending order; None if rows do not consist of them."""
    starts = _rows(span)
    if starts is None or span.row % piece or starts.size * (span.row // piece) > MOST_ROWS:
        return None
    return (starts[:, None] + np.arange(0, span.row, piece)).reshape(-1)


def _rows(span: Span) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    """The starts of a span's rows in ascending order, or None if they are too many."""
    starts = np.array([span.low], np.int64)
    for extent, stride in span.axes:
        if starts.size * extent > MOST_ROWS:
            return None
        starts = (starts[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    return np.sort(starts)


def _overlap(said: Wording, core: Core, queue: str, note: CallNote, read: Span, write: Span) -> Finding:
    common = _common(read, write)
    text = (
        f"{note.name}: source and result overlap: it reads {said.memory(core, read)} and writes "
        f"{said.memory(core, write)}, {common} are common"
    )
    expected = "a result that lies apart from the source"
    remedy = "give the result a place of its own, or move the data in two steps"
    return Finding("overlap", text, (site_of(core, queue),), expected, remedy)
