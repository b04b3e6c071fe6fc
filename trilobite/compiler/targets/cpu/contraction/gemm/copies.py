"""Operands whose axes do not collapse, copied into a temporary in the product's order.

Enters: a `Copy`. Leaves: the step that fills the temporary. Rare (a product over two axes that lie apart), so
it is one element at a time; units are rows of the copy.
"""

from __future__ import annotations

from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Copy
from trilobite.compiler.targets.cpu.contraction.gemm.words import Words
from trilobite.compiler.targets.cpu.contraction.sizes import Product
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.emit.types import constant
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.native.host import Host

_UNITS = 64


def lower_copy(copy: Copy, temporary: int, host: Host) -> Step:
    words = Words()
    words.buffer("*source", Operand("in", copy.input))
    words.buffer("*target", Operand("temporary", temporary))
    words.number("units", _UNITS)
    for i, axis in enumerate(copy.axes):
        words.number(f"size{i}", axis.size)
        words.number(f"stride{i}", axis.strides[0] * Product(copy.dtype.itemsize))
    t = Text(host)
    w = words.read(t)
    inner = len(copy.axes) - 1
    rows = constant("i64", 1)
    for i in range(inner):
        rows = t.mul(rows, w[f"size{i}"])
    start, stop = (t.udiv(t.mul(rows, u), w["units"]) for u in (t.begin, t.end))
    with t.loop(start, stop, name="row") as row:
        at = _row_start(t, w, row.index, inner)
        to = t.mul(row.index, w[f"size{inner}"])
        with t.loop(0, w[f"size{inner}"], name="element") as element:
            bits = f"i{8 * copy.dtype.itemsize}"
            value = t.load_type(bits, t.address(at, t.mul(element.index, w[f"stride{inner}"])))
            t.store_type(value, t.address(w["target"], t.mul(t.add(to, element.index), copy.dtype.itemsize)))
    return Step(NativeKernel("dot_arrange", t.module()), tuple(words.contents), _UNITS)


def _row_start(t: Text, w: dict[str, Value], row: Value, inner: int) -> Value:
    at, rest = w["source"], row
    for i in range(inner - 1, -1, -1):
        here = rest if i == 0 else t.urem(rest, w[f"size{i}"])
        at = t.address(at, t.mul(here, w[f"stride{i}"]))
        rest = rest if i == 0 else t.udiv(rest, w[f"size{i}"])
    return at
