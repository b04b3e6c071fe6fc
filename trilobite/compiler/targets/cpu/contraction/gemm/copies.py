"""Operands whose axes do not collapse, copied into a temporary in the product's order.

Enters: a `Copy`. Leaves: the step that fills the temporary. Rare (a product over two axes that lie apart), so
it is one element at a time; units are rows of the copy.
"""

from __future__ import annotations

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Copy
from trilobite.compiler.targets.cpu.contraction.gemm.units import strided
from trilobite.compiler.targets.cpu.contraction.sizes import Product
from trilobite.compiler.targets.cpu.contraction.words import Content, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant

_UNITS = 64


@dataclass(frozen=True)
class _AxisWords(Words[W]):
    size: W
    stride: W


@dataclass(frozen=True)
class _Words(Words[W]):
    source: W
    target: W
    units: W
    axes: tuple[_AxisWords[W], ...]


def lower_copy(copy: Copy, temporary: int, host: Host) -> Step:
    axes = tuple(_AxisWords(a.size, a.strides[0] * Product(copy.dtype.itemsize)) for a in copy.axes)
    words: _Words[Content] = _Words(
        Operand("in", copy.input), Operand("temporary", temporary), Product(_UNITS), axes
    )
    t = Text(host)
    w: _Words[Value] = read(t, forms(words))
    rows = constant("i64", 1)
    for axis in w.axes[:-1]:
        rows = t.mul(rows, axis.size)
    start, stop = (t.udiv(t.mul(rows, u), w.units) for u in (t.begin, t.end))
    with t.loop(start, stop, name="row") as row:
        at = strided(t, w.source, row.index, [(axis.size, axis.stride) for axis in w.axes[:-1]])
        inner = w.axes[-1]
        to = t.mul(row.index, inner.size)
        with t.loop(0, inner.size, name="element") as element:
            bits = f"i{8 * copy.dtype.itemsize}"
            value = t.load_type(bits, t.address(at, t.mul(element.index, inner.stride)))
            t.store_type(value, t.address(w.target, t.mul(t.add(to, element.index), copy.dtype.itemsize)))
    return Step(NativeKernel("dot_arrange", t.module()), contents(words), _UNITS)
