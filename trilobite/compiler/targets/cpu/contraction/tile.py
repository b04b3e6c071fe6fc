"""The register tile: rows x columns of sums that stay in registers while depth passes.

`RegisterTile` is the one emitter. Who uses it says how operands are addressed: strided or packed
(`gemm.micro`), gathered by a table of places (`GatheredTile` here, `direct.grouped`), pixel by pixel
(`weight_grad.tile`), panels of filters by planes (`planes.tile`). How they multiply stands in the tiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.multiply import add_pairs, add_quads, multiply_add
from trilobite.compiler.targets.cpu.contraction.tiling import VECTORS, Tiling
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import vector

_UNROLL = 4  # depth steps of one round of the inner loop
_SUMS_AT_ONCE = 8  # of integers, so that one needs not wait for the next
Step = Callable[[list[Value], Value, int], list[Value]]
"""From carried values, the first k and how many k are taken at once to carried values."""


class RegisterTile:
    """Sums of `rows` x `vectors` vectors, row by row; in memory rows of them are `pitch` elements apart."""

    ones: Value | None = None  # where 16-bit ones are, for quads

    def __init__(self, t: Text, tiling: Tiling, rows: int, vectors: int = VECTORS, pitch: int = 0) -> None:
        self.t, self.tiling, self.rows, self.vectors = t, tiling, rows, vectors
        self.pitch = pitch or tiling.columns

    def zeros(self) -> list[Value]:
        return [self.t.constant(self.tiling.vector, 0)] * (self.rows * self.vectors)

    def places(self, sums: Value) -> Iterator[Value]:
        """Where the sums lie, each computed when it is asked for."""
        for i in range(self.rows):
            for v in range(self.vectors):
                yield self.t.address(sums, (i * self.pitch + v * self.tiling.lanes) * self.tiling.size)

    def load(self, places: Iterable[Value]) -> list[Value]:
        return [self.t.load_type(self.tiling.vector, at, 32) for at in places]

    def store(self, values: Sequence[Value], places: Iterable[Value]) -> None:
        for value, at in zip(values, places, strict=True):
            self.t.store_type(value, at, 32)

    def multiplied(
        self, columns: Sequence[Value], element: Callable[[int], Value], sums: Sequence[Value]
    ) -> list[Value]:
        """The sums after one step of depth: vectors of columns, and of each row its element in all lanes."""
        out = list(sums)
        for i in range(self.rows):
            one = element(i)
            for v, column in enumerate(columns):
                k = i * len(columns) + v
                out[k] = self._product(one, column, out[k], k)
        return out

    def _product(self, one: Value, column: Value, total: Value, k: int) -> Value:
        t, lanes = self.t, self.tiling.lanes
        if self.tiling.multiply == "single":
            return multiply_add(t, one, column, total)
        if self.tiling.multiply == "pairs":
            return add_pairs(t, one, column, total, lanes)
        return add_quads(t, one, column, total, lanes, partial(self._ones, k))

    def _ones(self, k: int) -> Value:
        """16-bit ones for sum `k`. Kept in a register they would drive a sum out of its own. Read from as
        many places as there are sums, they are operands in memory, within one line of the cache.
        """
        assert self.ones is not None
        place = self.t.address(self.ones, 2 * k if self.tiling.lanes <= 8 else 0)
        return self.t.load_type(vector("i16", 2 * self.tiling.lanes), place)

    def wide(self, value: Value, stored: DType) -> Value:
        return widen(self.t, value, stored, self.tiling.accumulator)


def through_depth(
    t: Text, whole: Value, count: Value, unroll: int, carried: list[Value], step: Step,
    names: tuple[str, str] = ("k", "k"), as_written: bool = False,
) -> list[Value]:  # fmt: skip
    """All of depth: `unroll` at once up to `whole`, then one by one."""
    pieces = ((t.constant("i64", 0), whole, unroll, names[0]), (whole, count, 1, names[1]))
    for first, last, steps, name in pieces if unroll > 1 else pieces[:1]:
        with t.loop(first, last, steps, carried, name, as_written=as_written) as loop:
            loop.next(*step(loop.values, loop.index, steps))
        carried = loop.results
    return carried


# -- rows gathered by taps -----------------------------------------------------------------------------------

_WHERE = ("ptr noalias", "i64", "ptr noalias", "ptr noalias", "i64", "i64", "i64", "i64")
_SUMS = ("ptr noalias", "i1")
Stream = tuple[Value, ...]


class GatheredTile(RegisterTile):
    """Up to 6 gathered rows times columns of a weight panel, as an internal function

        name(places, line, panel, taps, first tap, last tap, first channel, channels[, ones], sums, begins)

    `places` holds for each tap the addresses of the rows, so padding, strides and dilation are addresses like
    any other; the activations are never copied. `taps` is a table of `tap_words` words a tap, the last one
    the row of the panel at which the tap's weights begin. `sums` is where the accumulators stay between
    blocks of depth. Channels of bytes are words of a pair or a quad; their sums begin with the row before
    the panel's first. With `streams`, the tile asks meanwhile for weights that later tiles want: two more
    parameters say where they begin and how many bytes go with each channel.
    """

    stream: tuple[str, ...] = ("ptr noalias", "i64")  # types of the parameters that `ask` needs

    def __init__(
        self, t: Text, tiling: Tiling, tap_words: int, rows: int, vectors: int = VECTORS, *,
        streams: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(t, tiling, rows, vectors)
        self.tap_words, self.streams = tap_words, streams
        self.words = tiling.multiply != "single"
        # Unrolled, a tap of few words would be mostly its beginning and end. But a sum of one or two rows
        # waits for itself; of integers, several sums added up in the end are the same.
        self.chains = max(1, _SUMS_AT_ONCE // (rows * vectors)) if self.words else 1

    @property
    def name(self) -> str:
        if self.words:
            return f"{self.tiling.multiply}{self.rows}"
        return f"tile{self.rows}x{self.vectors}"

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides the function's text."""
        return type(self), self.tiling, self.tap_words, self.rows, self.vectors, self.streams

    def emit(self) -> None:
        """The function."""
        t, where = self.t, _WHERE + ("ptr noalias",) * self.words
        with t.function(self.name, where + _SUMS + self.stream * self.streams) as p:
            mine, (sums, begins, *stream) = p[: len(where)], p[len(where) :]
            start = t.either(begins, lambda: self.start(mine[2]), lambda: self.load(self.places(sums)))
            self.store(self.sums(mine, start, tuple(stream)), self.places(sums))

    def start(self, panel: Value) -> list[Value]:
        """What sums begin with."""
        if not self.words:
            return self.zeros()
        t, tiling = self.t, self.tiling
        before = [(v * tiling.lanes - tiling.columns) * tiling.size for v in range(self.vectors)]
        return [t.load_type(tiling.vector, t.address(panel, at), 4) for at in before] * self.rows

    def sums(self, where: Sequence[Value], start: list[Value], stream: Stream = ()) -> list[Value]:
        """The code of the tile itself, from sums to sums. `where`: the parameters of the function."""
        t = self.t
        places, line, panel, taps, first, last, channel, channels, *ones = where
        self.ones = ones[0] if ones else None
        unroll = self.chains if self.words else _UNROLL
        whole = t.and_(channels, -unroll) if unroll > 1 else channels
        start = start + self.zeros() * (self.chains - 1)
        lines = [t.address(places, t.mul(line, i)) for i in range(self.rows)]
        with t.loop(first, last, carried=start, name="tap") as tap:
            rows, weights = self._addresses(lines, panel, taps, tap.index, channel)
            done = channels if self.words else t.mul(t.sub(tap.index, first), channels)

            def step(carried: list[Value], at: Value, steps: int) -> list[Value]:
                if stream and steps > 1:
                    self.ask(stream, rows, done, at)
                return self._steps(rows, at, carried, steps)

            carried = [weights, *tap.values]
            found = through_depth(
                t, whole, channels, unroll, carried, step, ("deep", "rest"), as_written=True
            )
            tap.next(*found[1:])
        count = self.rows * self.vectors
        return [reduce(t.add, tap.results[i::count]) for i in range(count)]

    def ask(self, stream: Stream, rows: list[Value], done: Value, at: Value) -> None:
        """Ask for what later tiles want: with channel `at` of a tap, `done` after the first tap's."""
        t = self.t
        t.prefetch(t.address(stream[0], t.mul(t.add(done, at), stream[1])), locality=2)

    def _addresses(
        self, lines: list[Value], panel: Value, taps: Value, tap: Value, channel: Value
    ) -> tuple[list[Value], Value]:
        t = self.t
        at = t.mul(tap, 8)
        found = (t.load_type("ptr", t.address(line, at)) for line in lines)
        rows = [t.address(r, channel, self.tiling.operand) for r in (found if self.words else list(found))]
        word = t.load_type(
            "i64", t.address(taps, t.add(t.mul(tap, 8 * self.tap_words), 8 * (self.tap_words - 1)))
        )
        depth = t.add(word, channel)
        return rows, t.address(panel, t.mul(depth, self.tiling.columns), self.tiling.panel)

    def _steps(self, rows: list[Value], at: Value, carried: list[Value], steps: int) -> list[Value]:
        """`steps` channels: each one element of every row times a row of the panel."""
        t, operand = self.t, self.tiling.operand
        weights, sums, count = carried[0], carried[1:], self.rows * self.vectors
        # Taps of words are short: their addresses are made where they are used, or registers would run out.
        here = rows if self.words else [t.address(r, at, operand) for r in rows]
        for u in range(steps):

            def element(i: int, u: int = u) -> Value:
                # Rows of words may be the caller's bytes, which begin anywhere.
                place = t.address(here[i], t.add(at, u) if self.words else u, operand)
                one = t.load(operand, place, align=1 if self.words else None)
                return t.splat(self.wide(one, operand), self.tiling.lanes)

            chain = slice(u % self.chains * count, (u % self.chains + 1) * count)
            sums[chain] = self.multiplied(self.columns(weights, u), element, sums[chain])
        return [t.address(weights, steps * self.tiling.columns, self.tiling.panel), *sums]

    def columns(self, weights: Value, u: int) -> list[Value]:
        """Row u of the panel."""
        t, tiling = self.t, self.tiling
        first = [u * tiling.columns + v * tiling.lanes for v in range(self.vectors)]
        at = (t.address(weights, n, tiling.panel) for n in first)
        places = list(at) if self.words else at
        return [self.wide(t.load(tiling.panel, p, tiling.lanes), tiling.panel) for p in places]


class RowsAheadTile(GatheredTile):
    """Asks for the rows of a later tile, so many bytes behind its own, where they come from far away: of each
    row it reads a few lines, too short a run for the processor to foresee.
    """

    stream = ("i64",)

    def ask(self, stream: Stream, rows: list[Value], done: Value, at: Value) -> None:
        (apart,) = stream
        for row in rows:
            self.t.prefetch(self.t.address(self.t.address(row, at, self.tiling.operand), apart))
