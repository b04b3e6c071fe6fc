"""A pass over vectors: tiles come in, a chain of elementwise instructions works on them, tiles go out.

Enters: the shape all equations share, operands with their strides over it (0 where they repeat), results,
and the chain. Leaves: a function of one pointer per operand and result. Axes that all operands treat alike
are one; tiles fill NRAM; tiles are dealt to the cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from trilobite.base.axes import merged as fewest_axes
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup, VectorBody
from trilobite.compiler.targets.dlp.kernels.spread import Spread
from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.vector.formats import format_of
from trilobite.compiler.targets.dlp.writer import ALIGN, GDRAM, SMALL, Int, Writer, nram_room, padded, slots
from trilobite.processor.lang.ir import KernelModule, Value
from trilobite.processor.machine import Machine

SPARE = 2048  # bytes of NRAM left for alignment


@dataclass(frozen=True)
class Pass:
    """What is passed over. All strides in elements; results are row-major."""

    shape: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    body: VectorBody


@dataclass(frozen=True)
class Tiling:
    """Axis `at` is cut into pieces of `step`; axes behind it are whole, those before it single."""

    shape: tuple[int, ...]
    at: int
    step: int

    @property
    def inner(self) -> int:
        return prod(self.shape[self.at + 1 :])

    @property
    def pieces(self) -> int:
        return -(-self.shape[self.at] // self.step)

    @property
    def outer(self) -> int:
        return prod(self.shape[: self.at])

    @property
    def most(self) -> int:
        """Elements of the largest tile."""
        return self.step * self.inner


def merged(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same space in as few axes as these arrays allow, at least one."""
    sizes, steps = fewest_axes(shape, strides)
    return (sizes, steps) if sizes else ([1], [[1] for _ in strides])


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def tiled(shape: Sequence[int], most: int, cores: int) -> Tiling:
    """The largest tiles that fit, and at least one for every core if there is enough to do."""
    at = len(shape) - 1
    while at > 0 and prod(shape[at:]) <= most:
        at -= 1
    inner = prod(shape[at + 1 :])
    step = max(1, min(shape[at], most // inner))
    outer = prod(shape[:at])
    wanted = -(-cores // outer)
    pieces = max(-(-shape[at] // step), min(wanted, shape[at]))
    even = -(-shape[at] // pieces)
    if inner == 1 and pieces > 1:
        even = min(-(-even // 128) * 128, max(step, 1)) if step >= 128 else even
    return Tiling(tuple(shape), at, even)


def write_pass(module: KernelModule, name: str, work: Pass, machine: Machine, cores: int) -> LoweredGroup:
    body = work.body
    results = [row_strides(work.shape)] * len(body.outputs)
    shape, steps = merged(work.shape, [*work.operands, *results])
    loaded = [any(s) for s in steps[: len(work.operands)]]
    items = [d.itemsize for d in (*body.inputs, *body.outputs)]
    w = Writer(module, name, [GDRAM] * len(items), machine, cores)
    repeated = [item for s, item in zip(steps, items, strict=False) if 0 in s and any(s)]
    tiling = tiled(shape, _largest(items, max(repeated, default=0), body, nram_room(machine)), cores)
    most = slots(tiling.most)
    tiles = [w.buffer(f"t{i}", most * item) for i, item in enumerate(items)]
    scratch = w.buffer("scratch", body.scratch_bytes(tiling.most))
    spreads = [_spread(tiling, s, item) for s, item in zip(steps[: len(loaded)], items, strict=False)]
    most_bytes = max((sum(s.bytes) for s in spreads if s is not None), default=0)
    aside = w.buffer("spread", most_bytes) if most_bytes else scratch
    with w.shared_loop(tiling.outer * tiling.pieces) as number:
        places = _Places(w, tiling, number)
        for i, (is_loaded, strides) in enumerate(zip(loaded, steps, strict=False)):
            spread = spreads[i]
            if spread is not None and spread.compact > 1:
                source = w.at(w.params[i], places.offset(strides, items[i]))
                spread.emit(w, tiles[i], source, aside, places.count)
            elif is_loaded and spread is None:
                places.load(tiles[i], w.params[i], strides, items[i])
            else:  # one element for the whole tile
                place = w.at(w.params[i], places.offset(strides, items[i]))
                element = w.load(format_of(body.inputs[i]), place)
                w.vector("VSET", format_of(body.inputs[i]), tiles[i], places.elements, element)
        n = len(work.operands)
        body.emit(w.b, tiles[:n], tiles[n:], places.elements, scratch, tiling.most)
        for i in range(n, len(items)):
            places.store(w.params[i], tiles[i], steps[i], items[i])
    w.finish()
    text = f"{tiling.outer * tiling.pieces} tiles of {tiling.most}"
    return LoweredGroup(name, "vector", mapping=text)


def _largest(items: Sequence[int], repeated: int, body: VectorBody, room: int) -> int:
    """Elements of the largest tile; small scratchpads hold a few at least."""
    per_element = sum(items) + body.scratch_bytes(ALIGN) // ALIGN + 3 * repeated
    left = room - SPARE - ALIGN * (len(items) + 3) - body.fixed_bytes
    whole = left // per_element // ALIGN * ALIGN
    if whole > 0:
        return whole
    small = range(ALIGN - SMALL, SMALL, -SMALL)
    return next((n for n in small if _bytes(n, items, repeated, body) <= room), SMALL)


def _bytes(n: int, items: Sequence[int], repeated: int, body: VectorBody) -> int:
    """Of tiles of so many elements, each of whole granules."""
    tiles = sum(padded(n * item) for item in items) + 3 * padded(n * repeated)
    return tiles + padded(body.scratch_bytes(n)) + body.fixed_bytes


def _spread(tiling: Tiling, strides: Sequence[int], item: int) -> Spread | None:
    """How an operand that repeats within a tile fills it."""
    made = Spread((tiling.step, *tiling.shape[tiling.at + 1 :]), tuple(strides[tiling.at :]), item)
    return made if made.is_needed else None


class _Places:
    """Where tile number `number` lies in each array."""

    def __init__(self, w: Writer, tiling: Tiling, number: Int) -> None:
        self.w, self.tiling = w, tiling
        outer, piece = w.div(number, tiling.pieces), w.rem(number, tiling.pieces)
        self.start = w.mul(piece, tiling.step)
        length = tiling.shape[tiling.at]
        whole = length % tiling.step == 0
        self.count: Int = tiling.step if whole else w.least(tiling.step, w.sub(length, self.start))
        self.elements = w.mul(self.count, tiling.inner)
        self.index: list[Int] = []
        for n in reversed(tiling.shape[: tiling.at]):
            self.index.append(w.rem(outer, n))
            outer = w.div(outer, n)
        self.index.reverse()

    def offset(self, strides: Sequence[int], item: int) -> Int:
        w = self.w
        total = w.mul(self.start, strides[self.tiling.at] * item)
        for i, s in zip(self.index, strides, strict=False):
            total = w.add(total, w.mul(i, s * item))
        return total

    def _axes(self, strides: Sequence[int], is_load: bool) -> list[Axis]:
        at, shape = self.tiling.at, self.tiling.shape
        inner = row_strides(shape[at:])
        extents: list[Int] = [self.count, *shape[at + 1 :]]
        pairs = zip(extents, inner, strides[at:], strict=True)
        return [Axis(n, tile, far) if is_load else Axis(n, far, tile) for n, tile, far in pairs]

    def load(self, tile: Value, pointer: Value, strides: Sequence[int], item: int) -> None:
        source = self.w.at(pointer, self.offset(strides, item))
        strided_copy(self.w, tile, source, self._axes(strides, True), item)

    def store(self, pointer: Value, tile: Value, strides: Sequence[int], item: int) -> None:
        target = self.w.at(pointer, self.offset(strides, item))
        strided_copy(self.w, target, tile, self._axes(strides, False), item)
