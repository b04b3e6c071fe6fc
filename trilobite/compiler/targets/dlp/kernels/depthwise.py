"""Convolutions of single channels on the vector unit: every tap is a product with a row of weights and a sum.

Enters: a forward convolution with as many groups as channels, channels last, and what follows it. Leaves: a
function of pointers, as the contraction room writes them. A matrix unit keeps one column of its array busy
here; the vector unit all its lanes.

A tile is some rows of results and some channels of one image. Its input is cut by the remainders of the
stride (phases), so that neighbours of a phase are neighbours of the result: then a tap is one instruction
over all rows. Rows have room for the taps to the right, and what is computed there is not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from trilobite.compiler.targets.dlp.contraction import expected_cycles
from trilobite.compiler.targets.dlp.interfaces import Convolution, Cost, Epilogue, LoweredGroup, Tensor
from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.vector.formats import FORMATS, WORDS, format_of
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room
from trilobite.processor.isa.formats import F32, I32, Format
from trilobite.processor.lang.ir import Constant, KernelModule, Value
from trilobite.processor.machine import Machine

SPARE = 4096  # bytes of NRAM left for alignment
ISSUE = 20  # cycles of an instruction beside its elements
BEGIN = 600  # cycles of a tile's addresses and waits


@dataclass(frozen=True)
class Phase:
    """One remainder of the stride along an axis: the first place of it that lies in the image, and behind the
    last one; `shift` is the place in the image of its place 0."""

    first: int
    behind: int
    shift: int


@dataclass(frozen=True)
class Along:
    """The window along one axis."""

    extent: int
    out: int
    kernel: int
    stride: int
    dilation: int
    low: int

    @property
    def more(self) -> int:
        """Places of a phase that are needed beyond those of the results."""
        return (self.kernel - 1) * self.dilation // self.stride

    @property
    def phases(self) -> int:
        return min(self.stride, (self.kernel - 1) * self.dilation + 1)

    def phase(self, number: int) -> Phase:
        shift = number - self.low
        return Phase(max(0, -(shift // self.stride)), (self.extent - 1 - shift) // self.stride + 1, shift)

    def tap(self, number: int) -> tuple[int, int]:
        """The phase that a tap reads, and how far."""
        at = number * self.dilation
        return at % self.stride, at // self.stride


@dataclass(frozen=True)
class Depthwise:
    problem: Convolution
    epilogue: Epilogue | None

    @cached_property
    def rows(self) -> Along:
        return self._along(0)

    @cached_property
    def columns(self) -> Along:
        return self._along(1)

    def _along(self, axis: int) -> Along:
        c = self.problem
        return Along(
            c.x.shape[1 + axis], c.y.shape[1 + axis], c.w.shape[1 + axis], c.stride[axis], c.w_dilation[axis],
            c.low[axis],
        )  # fmt: skip

    @property
    def channels(self) -> int:
        return self.problem.groups

    @property
    def format(self) -> Format:
        """What sums are kept in."""
        return F32 if format_of(self.problem.x.dtype).kind == "float" else I32

    @property
    def width(self) -> int:
        """Places of a row of a phase."""
        return self.columns.out + self.columns.more

    @property
    def operands(self) -> tuple[Tensor, ...]:
        return self.epilogue.operands if self.epilogue else ()

    @property
    def results(self) -> tuple[Tensor, ...]:
        return self.epilogue.results if self.epilogue else (self.problem.y,)

    @property
    def taps(self) -> list[tuple[int, int]]:
        return list(product(range(self.rows.kernel), range(self.columns.kernel)))

    @property
    def phases(self) -> list[tuple[int, int]]:
        return list(product(range(self.rows.phases), range(self.columns.phases)))

    @property
    def is_converted(self) -> bool:
        return format_of(self.problem.x.dtype) is not self.format

    @property
    def is_narrowed(self) -> bool:
        return format_of(self.problem.y.dtype) is not self.format

    def held(self, rows: int, channels: int) -> int:
        """Elements of a phase's tile, with what the last taps read behind it."""
        return ((rows + self.rows.more) * self.width + self.columns.more) * channels

    def bytes(self, rows: int, channels: int) -> int:
        """NRAM of a tile."""
        flat, item = rows * self.width * channels, self.problem.x.dtype.itemsize
        phases = len(self.phases) * 4 + (item if self.is_converted else 0)
        each = 8 + (self.problem.y.dtype.itemsize if self.is_narrowed else 0)
        each += sum(t.dtype.itemsize for t in (*self.operands, *self.results))
        scratch = self.epilogue.body.scratch_bytes(flat) if self.epilogue else 0
        fixed = self.epilogue.body.fixed_bytes if self.epilogue else 0
        weights = 3 * 4 * len(self.taps) * channels
        return self.held(rows, channels) * phases + flat * each + scratch + fixed + weights + SPARE


def refusal(problem: Convolution, epilogue: Epilogue | None) -> str | None:
    """Why this room does not write a convolution, or None."""
    c = problem
    if c.kind != "forward" or c.groups == 1 or c.w.shape[0] != c.groups or c.w.shape[-1] != 1:
        return "not a convolution of single channels"
    if any(d != 1 for d in c.x_dilation) or c.x.dtype != c.w.dtype or c.x.dtype not in FORMATS:
        return "an input that is spread, or formats that differ"
    fmt, out = format_of(c.x.dtype), format_of(c.y.dtype)
    is_float = fmt.kind == "float"
    if fmt.bits > 32 or (fmt.bits == 32 and not is_float):
        return "sums wider than 32 bits"
    if (out.kind == "float") != is_float or (not is_float and out is not I32) or out.bits > 32:
        return "sums in another format"
    layouts = (c.x, *((epilogue.operands + epilogue.results) if epilogue else (c.y,)))
    return None if all(t.strides[-1] in (0, 1) for t in layouts) else "channels do not lie side by side"


def tile_of(d: Depthwise, machine: Machine, cores: int) -> tuple[int, int, int] | None:
    """Rows and channels of the tiles that take the fewest cycles, and those cycles; None if nothing fits."""
    room = nram_room(machine)
    best: tuple[int, int, int] | None = None
    parts = [n for n in range(1, d.channels + 1) if d.channels % n == 0]
    heights = sorted({-(-d.rows.out // n) for n in range(1, d.rows.out + 1)}, reverse=True)
    for part in parts:
        channels = d.channels // part
        for rows in heights:
            if d.bytes(rows, channels) > room:
                continue
            cycles = _cycles(d, machine, cores, rows, channels)
            if best is None or cycles < best[2]:
                best = rows, channels, cycles
    return best


def _cycles(d: Depthwise, machine: Machine, cores: int, rows: int, channels: int) -> int:
    core, item = machine.core, d.problem.x.dtype.itemsize
    flat = rows * d.width * channels
    lane, pad = 4 / core.vfu.bytes_per_cycle, 4 / max(1, core.nram.bytes_per_cycle)
    work = len(d.taps) * (flat * (max(lane, 2 * pad) + max(lane, 3 * pad)) + 2 * ISSUE)
    work += flat * (d.epilogue.body.lane_bytes / core.vfu.bytes_per_cycle if d.epilogue else 0)
    seen = (rows * d.rows.stride + d.rows.kernel) * d.columns.extent
    moved = seen * _carried(machine, channels * item, channels == d.channels and d.columns.stride == 1)
    for t in (*d.operands, *d.results):
        piece = _carried(machine, channels * t.dtype.itemsize, channels == d.channels)
        moved += rows * d.columns.out * piece * (t.strides[1] != 0)
    share = min(core.io_dma.bytes_per_cycle, machine.dram_bytes_per_cycle / cores)
    tiles = d.problem.x.shape[0] * (d.channels // channels) * -(-d.rows.out // rows)
    return round(-(-tiles // cores) * (work + moved / share + BEGIN))


def _carried(machine: Machine, piece: int, is_run: bool) -> int:
    """Bytes that DRAM moves for the channels of one place, which are a piece of a run or stand alone."""
    granule = machine.dram.granule_bytes
    return piece if is_run or piece % granule == 0 else (piece // granule + 2) * granule


def lower_depthwise(
    module: KernelModule, name: str, problem: Convolution, epilogue: Epilogue | None, machine: Machine,
    cores: int,
) -> LoweredGroup | None:  # fmt: skip
    """Adds the function, if the vector unit is the better one for the problem."""
    if refusal(problem, epilogue) is not None:
        return None
    d = Depthwise(problem, epilogue)
    tile = tile_of(d, machine, cores)
    if tile is None or tile[2] >= expected_cycles(problem, epilogue, machine, cores):
        return None
    return write_depthwise(module, name, d, machine, cores, tile)


def write_depthwise(
    module: KernelModule, name: str, d: Depthwise, machine: Machine, cores: int, tile: tuple[int, int, int]
) -> LoweredGroup:
    pointers = 2 + len(d.operands) + len(d.results)
    w = Writer(module, name, [GDRAM] * pointers, machine, cores)
    _Kernel(w, d, tile[0], tile[1]).emit()
    w.finish()
    text = f"{tile[0]} rows of {tile[1]} channels at a time, {len(d.phases)} phases"
    return LoweredGroup(name, "vector", Cost(tile[2], "vector"), text)


class _Kernel:
    def __init__(self, w: Writer, d: Depthwise, rows: int, channels: int) -> None:
        self.w, self.d, self.tall, self.channels = w, d, rows, channels
        self.flat = rows * d.width * channels
        self.held = d.held(rows, channels)
        item = d.problem.x.dtype.itemsize
        self.phases = {p: w.buffer(f"phase{n}", self.held * 4) for n, p in enumerate(d.phases)}
        self.raw = w.buffer("raw", self.held * item) if d.is_converted else None
        self.weights = w.buffer("weights", len(d.taps) * channels * 4)
        self.turned = w.buffer("turned", len(d.taps) * channels * item)
        self.sums, self.term = w.buffer("sums", self.flat * 4), w.buffer("term", self.flat * 4)
        self.extras = [w.buffer(f"extra{n}", self.flat * t.dtype.itemsize) for n, t in enumerate(d.operands)]
        self.outs = [w.buffer(f"out{n}", self.flat * t.dtype.itemsize) for n, t in enumerate(d.results)]

    def emit(self) -> None:
        w, d = self.w, self.d
        down, across = -(-d.rows.out // self.tall), d.channels // self.channels
        with w.shared_loop(d.problem.x.shape[0] * across * down) as number:
            rest, row = w.div(number, down), w.mul(w.rem(number, down), self.tall)
            image, channel = w.div(rest, across), w.mul(w.rem(rest, across), self.channels)
            whole = d.rows.out % self.tall == 0
            count = self.tall if whole else w.least(self.tall, w.sub(d.rows.out, row))
            self._tile((image, row, channel), count)

    def _tile(self, at: tuple[Int, Int, Int], count: Int) -> None:
        self._load_weights(at[2])
        for phase, place in self.phases.items():
            self._load_phase(phase, place, at, count)
        elements = self.w.mul(count, self.d.width * self.channels)
        self._add_taps(elements)
        results = self._finish(at, count, elements)
        for pointer, t, tile in zip(
            self.w.params[2 + len(self.extras) :], self.d.results, results, strict=True
        ):
            near, far = self._near_axes(count), self._far_axes(t, count)
            axes = [Axis(n, b, a) for (n, a), (_, b) in zip(near, far, strict=True)]
            strided_copy(self.w, self._place(pointer, t, at), tile, axes, t.dtype.itemsize)

    # operands
    def _load_weights(self, channel: Int) -> None:
        """One row of the tile's channels for each tap."""
        w, t, taps = self.w, self.d.problem.w, len(self.d.taps)
        fmt, item, kw = format_of(t.dtype), t.dtype.itemsize, self.d.columns.kernel
        source = w.at(w.params[1], w.mul(channel, t.strides[0] * item))
        taken = self.weights if not self.d.is_converted else w.buffer("taken", taps * self.channels * item)
        axes = [Axis(self.channels, taps, t.strides[0]), Axis(self.d.rows.kernel, kw, t.strides[1]),
                Axis(kw, 1, t.strides[2])]  # fmt: skip
        strided_copy(w, self.turned, source, axes, item)
        w.vector("VTRANS", WORDS[item], taken, self.turned, 1, self.channels, taps)
        if self.d.is_converted:
            w.vector("VCVT", (self.d.format, fmt), self.weights, taps * self.channels, taken, flags=("rn",))

    def _load_phase(self, phase: tuple[int, int], place: Value, at: tuple[Int, Int, Int], count: Int) -> None:
        """Its places of the image, zeros around them."""
        w, d, t, (image, row, channel) = self.w, self.d, self.d.problem.x, at
        fmt, item = format_of(t.dtype), t.dtype.itemsize
        tile = place if self.raw is None else self.raw
        w.vector("VSET", fmt, tile, self.held, Constant(fmt, 0.0 if fmt.kind == "float" else 0))
        along, across = d.rows.phase(phase[0]), d.columns.phase(phase[1])
        left, right = min(across.first, d.width), min(across.behind, d.width)
        first = w.most(0, w.sub(along.first, row))
        last = w.least(w.add(count, d.rows.more), w.sub(along.behind, row))
        if right > left:
            begin = w.add(w.mul(w.add(row, first), d.rows.stride * t.strides[1]), along.shift * t.strides[1])
            start = w.add(w.add(w.mul(image, t.strides[0]), begin), channel)
            start = w.add(start, (left * d.columns.stride + across.shift) * t.strides[2])
            to = w.at(tile, w.mul(w.add(w.mul(first, d.width), left), self.channels * item))
            axes = [
                Axis(w.sub(last, first), d.width * self.channels, d.rows.stride * t.strides[1]),
                Axis(right - left, self.channels, d.columns.stride * t.strides[2]),
                Axis(self.channels, 1, t.strides[3]),
            ]
            with w.when(w.compare("gt", last, first)):
                strided_copy(w, to, w.at(w.params[0], w.mul(start, item)), axes, item)
        if self.raw is not None:
            w.vector("VCVT", (d.format, fmt), place, self.held, self.raw, flags=("rn",))

    # sums
    def _add_taps(self, elements: Int) -> None:
        w, d = self.w, self.d
        for number, (r, s) in enumerate(d.taps):
            (a, down), (b, right) = d.rows.tap(r), d.columns.tap(s)
            source = w.at(self.phases[a, b], (down * d.width + right) * self.channels * 4)
            weights = w.at(self.weights, number * self.channels * 4)
            to = self.term if number else self.sums
            w.vector("VCMV", d.format, to, elements, source, weights, self.channels)
            if number:
                w.vector("VAV", d.format, self.sums, elements, self.sums, self.term)

    # behind them
    def _finish(self, at: tuple[Int, Int, Int], count: Int, elements: Int) -> Sequence[Value]:
        w, d, tile = self.w, self.d, self.sums
        out = format_of(d.problem.y.dtype)
        if d.is_narrowed:
            tile = w.buffer("narrow", self.flat * d.problem.y.dtype.itemsize)
            w.vector("VCVT", (out, d.format), tile, elements, self.sums, flags=("rn",))
        if d.epilogue is None:
            return [tile]
        for n, t in enumerate(d.operands):
            self._load_extra(n, t, at, count, elements)
        scratch = w.buffer("scratch", d.epilogue.body.scratch_bytes(self.flat))
        d.epilogue.body.emit(w.b, [tile, *self.extras], self.outs, elements, scratch, self.flat)
        return self.outs

    def _load_extra(self, n: int, t: Tensor, at: tuple[Int, Int, Int], count: Int, elements: Int) -> None:
        w, item, fmt = self.w, t.dtype.itemsize, format_of(t.dtype)
        pointer, tile = self._place(w.params[2 + n], t, at), self.extras[n]
        if not any(t.strides):
            w.vector("VSET", fmt, tile, elements, w.load(fmt, pointer))
            return
        if not any(t.strides[:-1]):  # one number for each channel
            size = self.channels * item
            w.copy(tile, pointer, size)
            many = w.sub(w.mul(count, self.d.width), 1)
            w.copy2(w.at(tile, size), tile, size, size, 0, many)
            return
        near, far = self._near_axes(count), self._far_axes(t, count)
        axes = [Axis(m, a, b) for (m, a), (_, b) in zip(near, far, strict=True)]
        w.vector("VSET", WORDS[item], tile, elements, Constant(WORDS[item], 0))
        strided_copy(w, tile, pointer, axes, item)

    def _near_axes(self, count: Int) -> list[tuple[Int, Int]]:
        """Extents and strides of a tile's places that are stored."""
        width = self.d.width * self.channels
        return [(count, width), (self.d.columns.out, self.channels), (self.channels, 1)]

    def _far_axes(self, t: Tensor, count: Int) -> list[tuple[Int, Int]]:
        _, row, column, channel = t.strides
        return [(count, row), (self.d.columns.out, column), (self.channels, channel)]

    def _place(self, pointer: Value, t: Tensor, at: tuple[Int, Int, Int]) -> Value:
        w, (image, row, channel) = self.w, at
        place = w.add(w.mul(image, t.strides[0]), w.mul(row, t.strides[1]))
        return w.at(pointer, w.mul(w.add(place, w.mul(channel, t.strides[3])), t.dtype.itemsize))


__all__ = ["Depthwise", "lower_depthwise", "refusal", "tile_of", "write_depthwise"]
