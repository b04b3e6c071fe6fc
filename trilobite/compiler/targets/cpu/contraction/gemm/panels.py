"""Packing a weight once: the lowering of `gemm_pack`.

Enters: a region of one `gemm_pack`, perhaps of a transposed matrix. Leaves: its step. Units are panels; the
value is the same, bit for bit, as the primitive's rule gives.
"""

from __future__ import annotations

from trilobite.base.dtypes import float32, float64
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Operand as View
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Refused
from trilobite.compiler.targets.cpu.contraction.gemm.pack import Stored, emit_pack
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import tiling
from trilobite.compiler.targets.cpu.contraction.gemm.words import Words
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.emit.text import Text
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation, Graph
from trilobite.native.host import Host


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
    words = Words()
    words.buffer("*source", Operand("in", view.input))
    words.buffer("*target", Operand("out", 0))
    words.number("k", product([view.shape[contract]]))
    words.number("columns", product([view.shape[1 - contract]]))
    words.number("k_stride", view.strides[contract] * size)
    words.number("line_stride", view.strides[1 - contract] * size)
    t = Text(host)
    plan = tiling(host, view.dtype)
    emit_pack(t, plan, "pack", Stored(view.dtype), width, exact=True)
    w = words.read(t)
    with t.loop(t.begin, t.end, name="panel") as panel:
        first = t.mul(panel.index, width)
        t.call(
            "pack",
            t.address(w["source"], t.mul(first, w["line_stride"])), w["k_stride"], w["line_stride"], w["k"],
            t.smin(t.sub(w["columns"], first), width),
            t.address(w["target"], t.mul(t.mul(first, w["k"]), view.dtype.itemsize)),
        )  # fmt: skip
    kernel = NativeKernel("gemm_pack", t.module())
    return Lowering((Step(kernel, tuple(words.contents), panels),), why="a weight in panels, packed once")
