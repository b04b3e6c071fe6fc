"""The register tile: rows × columns of the product, kept in registers over one block of k.

Enters: a `Text`, a `Tiling` and the strides that are known. Leaves: the functions `micro1` .. `micro6`, one
for each number of rows.

    micro<r>(k, a, a_row, a_step, b, b_step, c, c_row, add[, next, next_step])

multiplies r rows of A by one panel of B. All strides are in bytes. A's element (i, k) stands at
a + i·a_row + k·a_step, so A may be packed or be the caller's matrix as it is; row k of B's panel begins at
b + k·b_step. Strides that are known stand in the instructions: computing addresses takes time from the
multiplications where a virtual machine's core is half of a real one. The tile is stored to c, or added to
what is there if `add` is not 0. Every element is one chain of multiply-adds in the order of k: its bits
depend on k's blocks alone, not on r or on where the tile stands.
With `streams`, the tile asks meanwhile for memory that later tiles want: next_step bytes behind `next` per k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import Plan
from trilobite.compiler.targets.cpu.contraction.tile import RegisterTile, through_depth
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, is_float_type

_PARAMETERS = (
    "i64", "ptr noalias", "i64", "i64", "ptr noalias", "i64", "ptr noalias", "i64", "i64",
)  # fmt: skip
_STREAM = ("ptr", "i64")
TALL = (ROWS - 1, ROWS)
"""Heights of nearly all tiles: rows are divided among tiles evenly."""
_AHEAD = 768  # bytes of A asked for in advance: about 32 steps of packed rows


@dataclass(frozen=True)
class Strides:
    """The strides that are known beforehand, in bytes; others are what the functions are given."""

    a_row: int | None = None
    a_step: int | None = None
    b_step: int | None = None


def emit_micro(
    t: Text, plan: Plan, tall: Mapping[str, Strides] | None = None, *, streams: bool = False
) -> None:
    """Of tiles that are `tall`, which do most of the work, there is a function for each of these strides,
    with its name before; others are in general form.
    """

    def emit() -> None:
        for rows in range(1, ROWS + 1):
            for name, known in (tall if tall and rows in TALL else {"micro": Strides()}).items():
                with t.function(f"{name}{rows}", _PARAMETERS + _STREAM * streams) as parameters:
                    _Micro(t, plan, rows, known, parameters).emit()

    t.kept(("micro", plan, tuple((tall or {}).items()), streams), emit)


def call_micro(t: Text, rows: Value, *arguments: Value, tall: Mapping[str, Value] | None = None) -> None:
    """The one of the six functions that `rows` asks for; of several for `tall` tiles, the one whose condition
    holds.
    """
    for r in range(ROWS, 0, -1):
        with t.when(t.icmp("eq", rows, r)):
            if not tall or r not in TALL:
                t.call(f"micro{r}", *arguments)
                continue
            for name, condition in tall.items():
                with t.when(condition):
                    t.call(f"{name}{r}", *arguments)


def whole_tile(t: Text, plan: Plan, known: Strides, *arguments: Value) -> list[Value]:
    """The sums of a tile of all rows, row by row, in the midst of other code. The arguments are those of the
    functions; nothing is stored, but memory at c will be wanted.
    """
    return _Micro(t, plan, ROWS, known, arguments).sums()


class _Micro(RegisterTile):
    def __init__(self, t: Text, plan: Plan, rows: int, known: Strides, parameters: Sequence[Value]) -> None:
        super().__init__(t, plan, rows, plan.vectors)
        self.k, self.a, a_row, a_step, self.b, b_step, self.c, self.c_row, self.add = parameters[:9]
        self.stream = parameters[9:]
        self.a_row, self.a_step, self.b_step = (
            given if number is None else constant("i64", number)
            for given, number in ((a_row, known.a_row), (a_step, known.a_step), (b_step, known.b_step))
        )
        # Integers need a register more for their products: unrolled, they would spill. With unknown strides
        # every further step needs registers for its addresses.
        steps = 2 if known.a_step is None else 4
        self.unroll = steps if is_float_type(plan.element) else 1
        self.c_rows = [self.c]
        for _ in range(rows - 1):
            self.c_rows.append(t.address(self.c_rows[-1], self.c_row))

    def emit(self) -> None:
        self.put(self.sums())

    def sums(self) -> list[Value]:
        t = self.t
        for c in self.c_rows:
            t.prefetch(c, write=True)
        whole = t.and_(self.k, -self.unroll)
        # Two bases three rows apart: every row is then a base plus a stride of scale 1 or 2.
        bases = [self.a] + ([t.address(self.a, t.mul(self.a_row, 3))] if self.rows > 3 else [])
        carried = [*bases, self.b, *self.zeros()]
        return through_depth(t, whole, self.k, self.unroll, carried, self.steps)[len(bases) + 1 :]

    def steps(self, state: list[Value], k: Value, count: int) -> list[Value]:
        if count == self.unroll:
            self.t.prefetch(self.t.address(state[0], _AHEAD))
            self.fetch_next(k)
        for _ in range(count):
            state = self.step(state)
        return state

    def fetch_next(self, k: Value) -> None:
        """A little of what comes next with every k, into the second cache: the first one is full."""
        if self.stream:
            first, step = self.stream
            self.t.prefetch(self.t.address(first, self.t.mul(k, step)), locality=2)

    def step(self, state: list[Value]) -> list[Value]:
        """One k: a row of B in registers, each element of A's column in all lanes."""
        t, plan = self.t, self.tiling
        n = 1 if self.rows <= 3 else 2
        bases, b, sums = state[:n], state[n], state[n + 1 :]
        width = plan.lanes * plan.size

        def element(r: int) -> Value:
            at = t.address(bases[r // 3], t.mul(self.a_row, r % 3))
            return t.splat(t.load_type(plan.element, at, plan.size), plan.lanes)

        row = [t.load_type(plan.vector, t.address(b, width * v), plan.size) for v in range(self.vectors)]
        out = self.multiplied(row, element, sums)
        return [*(t.address(p, self.a_step) for p in bases), t.address(b, self.b_step), *out]

    def put(self, sums: Sequence[Value]) -> None:
        """Store the sums, or add them to what is there."""
        t, plan = self.t, self.tiling
        places = [t.address(c, v * plan.lanes * plan.size) for c in self.c_rows for v in range(self.vectors)]

        def adding() -> None:
            for at, s in zip(places, sums, strict=True):
                t.store_type(_sum(t, t.load_type(plan.vector, at, plan.size), s), at, plan.size)

        def storing() -> None:
            for at, s in zip(places, sums, strict=True):
                t.store_type(s, at, plan.size)

        t.either(t.icmp("ne", self.add, 0), adding, storing)


def _sum(t: Text, a: Value, b: Value) -> Value:
    return t.fadd(a, b) if is_float_type(a.type) else t.add(a, b)
