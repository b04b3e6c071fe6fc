"""The lowering of `lookup` where no product makes the bytes.

Enters: a region of one `lookup`. Leaves: one step of one kernel for every size. A unit is a run of bytes.
"""

from __future__ import annotations

from functools import cache, partial

from trilobite.base.dtypes import uint8
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.runs import each_vector
from trilobite.compiler.targets.cpu.contraction.sizes import product
from trilobite.compiler.targets.cpu.contraction.words import Content, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.emit.lookup import lookup
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation, Graph
from trilobite.native.host import Host, features
from trilobite.native.llvm.text import Text, Value

_RUN = 1 << 14  # bytes of a unit: about a microsecond
_LANES = 64


@dataclass(frozen=True)
class _Words(Words[W]):
    x: W
    table: W
    out: W
    size: W


def accepts(region: Graph) -> str | None:
    """Why this region is not lowered here; None if it is."""
    if [e.primitive.name for e in region.equations] != ["lookup"]:
        return "nothing is fused with a lookup that is not behind a product"
    size = product(region.equations[0].inputs[0].type.shape)
    return None if len(size.symbolic) <= 1 else "a size is the product of symbolic sizes"


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    (e,) = region.equations
    x, table = (Operand("in", region.inputs.index(v)) for v in e.inputs)
    size, _ = product(e.inputs[0].type.shape).words
    words: _Words[Content] = _Words(x, table, Operand("out", 0), size)
    step = Step(_kernel(features(), forms(words)), contents(words), -(-size // _RUN))
    return Lowering((step,), (), why="bytes looked up in a table")


@cache
def _kernel(host: Host, words: _Words[str]) -> NativeKernel:
    t = Text(host)
    w: _Words[Value] = read(t, words)
    first = t.mul(t.begin, _RUN)
    last = t.smin(t.mul(t.end, _RUN), w.size)
    each_vector(t, _LANES, last, partial(_some, t, w), first, name="bytes")
    return NativeKernel("lookup", t.module())


def _some(t: Text, w: _Words[Value], at: Value, count: Value | None) -> None:
    x = t.load_partial(uint8, t.address(w.x, at), count, _LANES)
    t.store_partial(uint8, lookup(t, x, w.table), t.address(w.out, at), count)
