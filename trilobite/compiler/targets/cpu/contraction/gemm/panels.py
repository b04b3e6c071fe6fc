"""Packing a weight once: the lowering of `gemm_pack`.

Enters: a region of one `gemm_pack`, perhaps of a transposed matrix. Leaves: its step. Units are panels; the
value is the same, bit for bit, as the primitive's rule gives.
"""

from __future__ import annotations

from trilobite.base.dtypes import float32, float64
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Operand as View
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Refused
from trilobite.compiler.targets.cpu.contraction.gemm.pack import Stored, emit_pack
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import plan_of
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.contraction.words import Content, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation, Graph
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class _Words(Words[W]):
    source: W
    target: W
    k: W
    columns: W
    k_stride: W
    line_stride: W


def check_pack(region: Graph, root: Equation) -> View:
    """The matrix to be packed, if this can be done here."""
    if root.outputs != region.outputs:
        raise Refused("something follows the packing of a matrix")
    view = View(region, root.inputs[0])
    if view.grid or view.dtype not in (float32, float64):
        raise Refused(f"panels of {view.dtype}")
    return view


def lower_pack(region: Graph, root: Equation, host: Host) -> Lowering:
    view, contract, width = check_pack(region, root), root.attributes["contract"], root.attributes["width"]
    size = Product(view.dtype.itemsize)
    panels = root.outputs[0].type.shape[0]
    words: _Words[Content] = _Words(
        Operand("in", view.input), Operand("out", 0), product([view.shape[contract]]),
        product([view.shape[1 - contract]]), view.strides[contract] * size, view.strides[1 - contract] * size,
    )  # fmt: skip
    t = Text(host)
    plan = plan_of(host, view.dtype)
    emit_pack(t, plan, "pack", Stored(view.dtype), width, exact=True)
    w: _Words[Value] = read(t, forms(words))
    with t.loop(t.begin, t.end, name="panel") as panel:
        first = t.mul(panel.index, width)
        t.call(
            "pack",
            t.address(w.source, t.mul(first, w.line_stride)), w.k_stride, w.line_stride, w.k,
            t.smin(t.sub(w.columns, first), width),
            t.address(w.target, t.mul(t.mul(first, w.k), view.dtype.itemsize)),
        )  # fmt: skip
    kernel = NativeKernel("gemm_pack", t.module())
    return Lowering((Step(kernel, contents(words), panels),), why="a weight in panels, packed once")
