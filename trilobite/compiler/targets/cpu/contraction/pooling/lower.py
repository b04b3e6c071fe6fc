"""Pooling: the lowering of fusions of kind "window".

Enters: a `fusion` equation whose region is one channels-last window equation with an epilogue after it.
Leaves: its kernels and steps. Places by number (`window_last_argmax`, `_gather`, `_scatter`) run on the
host: only derivatives of derivatives of pooling make them.
"""

from __future__ import annotations

from trilobite.base.dtypes import SMALL_FLOATS, bool_, is_complex
from trilobite.compiler.program.kernels import Lowering
from trilobite.compiler.targets.cpu.contraction.pooling.max_grad import lower_max_grad
from trilobite.compiler.targets.cpu.contraction.problem import window_problem
from trilobite.compiler.targets.cpu.contraction.rowwise.steps import Rows, lower_rowwise
from trilobite.compiler.targets.cpu.contraction.tiling import tiling_of
from trilobite.compiler.targets.cpu.epilogue import epilogue_of
from trilobite.compiler.targets.cpu.primitives.window_last import disjoint
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.primitives.reduction import highest, lowest
from trilobite.ir.types import Affine
from trilobite.native.host import features

ROOTS = ("window_last_reduce", "window_last_spread", "window_last_max_grad")


def accepts(region: Graph) -> str | None:
    """Why this region is no window that can be lowered; None if it is one."""
    found = [e for e in region.equations if e.primitive.name in ROOTS]
    if len(found) != 1:
        return f"{len(found)} windows in one region"
    (root,) = found
    if any(v not in region.inputs for v in root.inputs):
        return "what a window reads is computed before it"
    why = _refused(root)
    if why is not None:
        return why
    if root.primitive.name == "window_last_max_grad":
        return (
            None if len(region.equations) == 1 else "nothing is fused with the gradient of a largest element"
        )
    return None if epilogue_of(region, root) is not None else "what follows is not elementwise along rows"


def _refused(e: Equation) -> str | None:
    x = e.inputs[0].type
    lead = x.ndim - 1 - len(e.attributes["size"])
    if is_complex(x.dtype) or x.dtype == bool_:
        return f"windows of {x.dtype} run on the host"
    if any(isinstance(n, Affine) for n in x.shape[lead:]):
        return "only what stands before the plane of a window may be symbolic"
    small = x.dtype in SMALL_FLOATS and e.primitive.name == "window_last_max_grad"
    if small and not disjoint(e.attributes):
        return "overlapping windows of small floats are summed in float32, which the kernel does not"
    return None


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    root = next(e for e in region.equations if e.primitive.name in ROOTS)
    inputs = tuple(region.inputs.index(v) for v in root.inputs)
    host, dtype = features(), root.inputs[0].type.dtype
    if root.primitive.name == "window_last_max_grad":
        return lower_max_grad(root, (inputs[0], inputs[1]), disjoint(root.attributes), host)
    epilogue = epilogue_of(region, root)
    assert epilogue is not None, "the fuse pass asks `accepts` first"
    kind = root.attributes.get("kind", "sum")
    outside = 0 if kind == "sum" else lowest(dtype) if kind == "max" else highest(dtype)
    rows = Rows(window_problem(root), kind, outside, inputs)
    tile = tiling_of(host, dtype, dtype, rows.problem.channels)
    return lower_rowwise(rows, tile, epilogue, host)
