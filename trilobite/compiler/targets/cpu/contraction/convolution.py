"""Convolutions: the lowering of fusions of kind "conv".

Enters: a `fusion` equation whose region is one channels-last convolution with an epilogue after it, or the
cutting of a weight into panels. Leaves: its kernels and steps, from the room's kernel for that form. What
it refuses it says why; complex numbers run on the host.
"""

from __future__ import annotations

from trilobite.base.dtypes import float32, float64, is_complex
from trilobite.compiler.program.kernels import Lowering
from trilobite.compiler.targets.cpu.contraction.channelwise.steps import fits, lower_filter
from trilobite.compiler.targets.cpu.contraction.direct.panels import lower_panels
from trilobite.compiler.targets.cpu.contraction.direct.steps import lower_direct
from trilobite.compiler.targets.cpu.contraction.integer.panels import lower_integer_panels
from trilobite.compiler.targets.cpu.contraction.integer.steps import lower_integer
from trilobite.compiler.targets.cpu.contraction.integer_tiled.steps import (
    lower_integer_points,
    lower_integer_tiles,
)
from trilobite.compiler.targets.cpu.contraction.integer_tiled.transforms import source_lanes
from trilobite.compiler.targets.cpu.contraction.planes.steps import as_it_lies, lower_planes
from trilobite.compiler.targets.cpu.contraction.planes.tile import FILTERS
from trilobite.compiler.targets.cpu.contraction.problem import problem
from trilobite.compiler.targets.cpu.contraction.rowwise.steps import Rows, lower_rowwise
from trilobite.compiler.targets.cpu.contraction.tiling import VECTORS, tiling_of, tilings
from trilobite.compiler.targets.cpu.contraction.weight_grad.steps import lower_filter_grad, lower_weight_grad
from trilobite.compiler.targets.cpu.contraction.winograd.steps import (
    lower_winograd,
    lower_winograd_grad,
)
from trilobite.compiler.targets.cpu.epilogue import Epilogue, epilogue_of
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.types import Affine
from trilobite.native.host import Host, features

_GATHERED = ("conv_last", "conv_last_input_grad")
_WEIGHTS = {
    "conv_panels": lower_panels,
    "conv_integer_panels": lower_integer_panels,
    "conv_integer_points": lower_integer_points,
}  # nothing is fused with them
_TILED = ("conv_winograd", "conv_winograd_weight_grad")
_GRADIENTS = ("conv_last_weight_grad", "conv_winograd_weight_grad")
_INTEGER = {"conv_integer": lower_integer, "conv_integer_tiles": lower_integer_tiles}
ROOTS = (*_GATHERED, "conv_planes", "conv_last_weight_grad", *_INTEGER, *_TILED, *_WEIGHTS)


def accepts(region: Graph) -> str | None:
    """Why this region is no convolution that can be lowered; None if it is one."""
    found = [e for e in region.equations if e.primitive.name in ROOTS]
    if len(found) != 1:
        return f"{len(found)} convolutions in one region"
    (root,) = found
    if any(is_complex(v.type.dtype) for v in (*root.inputs, *root.outputs)):
        return "complex convolutions run on the host"
    if any(v not in region.inputs for v in root.inputs):
        return "what a convolution reads is computed before it"
    if _symbolic(root):
        return "only the batch of a convolution may be symbolic"
    if root.primitive.name in _WEIGHTS:
        return None if len(region.equations) == 1 else "nothing is fused with the cutting of a weight"
    if (why := _refused(root)) is not None:
        return why
    if epilogue_of(region, root) is None:
        return "what follows the convolution is not elementwise along its rows and columns"
    return None


def _refused(e: Equation) -> str | None:
    name, x = e.primitive.name, e.inputs[0].type
    if name in _TILED and (isinstance(x.shape[0], Affine) or x.dtype not in (float32, float64)):
        return "tiled convolutions are of float32 or float64, with a batch that is known"
    if name == "conv_last_weight_grad" and any(d != 1 for d in e.attributes["x_dilation"]):
        return "the weight gradient of an input with zeros between its elements"
    if name in _GRADIENTS:
        return None
    if name in _INTEGER:
        return _refused_integer(e)
    if name == "conv_planes":
        return _refused_planes(e)
    w, y = e.inputs[1].type, e.outputs[0].type
    if w.ndim == x.ndim and name in _GATHERED:
        channelwise = w.shape[-2] == 1 and e.attributes["groups"] == x.shape[-1] == y.shape[-1]
        return None if channelwise else "a weight that is neither in panels nor one filter per channel"
    fill = [tile.columns for tile in tilings(features(), x.dtype, e.attributes["dtype"])]
    if w.shape[-1] in fill:
        return None
    return f"panels of {w.shape[-1]} columns where {' or '.join(map(str, fill))} fill registers"


def _refused_planes(e: Equation) -> str | None:
    if any(v.type.dtype not in (float32, float64) for v in (*e.inputs, *e.outputs)):
        return "convolutions of planes are of float32 or float64"
    if any(d != 1 for d in e.attributes["x_dilation"]):
        return "planes with zeros between their elements"
    line, least = e.outputs[0].type.shape[-1], features().lanes(e.inputs[0].type.dtype.itemsize)
    if not as_it_lies(e) and 0 < line < least:
        return "planes whose lines are shorter than a vector"
    lanes = e.inputs[1].type.shape[-1]
    return None if lanes == FILTERS else f"panels of {lanes} filters where {FILTERS} fill registers"


def _refused_integer(e: Equation) -> str | None:
    if any(d != 1 for d in e.attributes.get("x_dilation", ())):
        return "an integer convolution of an input with zeros between its elements"
    symbolic = any(isinstance(n, Affine) for n in e.inputs[0].type.shape)
    if symbolic and not e.attributes.get("kernel"):
        return "a product or a tiled convolution of bytes whose rows are symbolic"
    if e.primitive.name == "conv_integer_tiles" and e.inputs[0].type.shape[-1] < source_lanes(features()):
        return "a tiled convolution of fewer channels than fill a vector"
    widths = sorted({VECTORS * features().lanes(4), VECTORS * features().tile_lanes(4)})
    fits, listed = e.attributes["lanes"] in widths, " or ".join(map(str, widths))
    return None if fits else f"panels that are not of {listed} columns"


def _symbolic(e: Equation) -> bool:
    """Is any size but the leading ones of activations symbolic?"""
    name = e.primitive.name
    if name in _WEIGHTS:
        whole, lead = [*e.inputs], []
    elif name in _GRADIENTS:
        whole, lead = [*e.outputs], [*e.inputs]
    else:
        whole, lead = [e.inputs[1]], [e.inputs[0], *e.outputs]
    shapes = [v.type.shape for v in whole] + [v.type.shape[1:] for v in lead]
    return any(isinstance(n, Affine) for shape in shapes for n in shape)


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    root = next(e for e in region.equations if e.primitive.name in ROOTS)
    if root.primitive.name in _WEIGHTS:
        return _WEIGHTS[root.primitive.name](root, features())
    epilogue = epilogue_of(region, root)
    assert epilogue is not None, "the fuse pass asks `accepts` first"
    places = tuple(region.inputs.index(v) for v in root.inputs)
    return lower_root(root, epilogue, (places[0], places[1]), features())


def lower_root(root: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """One convolution whose operands are these inputs of the fusion."""
    if root.primitive.name == "conv_last_weight_grad":
        x, y = (v.type.shape[-1] for v in root.inputs)
        channelwise = root.attributes["groups"] == x == y
        return (lower_filter_grad if channelwise else lower_weight_grad)(root, epilogue, inputs, host)
    if root.primitive.name in _TILED:
        lower_tiled = lower_winograd if root.primitive.name == "conv_winograd" else lower_winograd_grad
        return lower_tiled(root, epilogue, inputs, host)
    if root.primitive.name == "conv_planes":
        return lower_planes(root, epilogue, inputs, host)
    if root.primitive.name in _INTEGER:
        return _INTEGER[root.primitive.name](root, epilogue, inputs, host)
    if root.inputs[1].type.ndim == root.inputs[0].type.ndim:
        p, dtypes = problem(root), (root.inputs[0].type.dtype, root.attributes["dtype"])
        single = fits(p)
        lanes = host.tile_lanes(tilings(host, *dtypes)[0].size)
        alone = single and p.channels % lanes == 0  # lines of pixels take one vector at a time
        columns = p.channels * (VECTORS if alone else 1)
        tile = tiling_of(host, *dtypes, columns)
        outside = root.attributes.get("outside", 0)
        if single:
            return lower_filter(p, tile, epilogue, inputs, host, outside)
        return lower_rowwise(Rows(p, "filter", outside, inputs), tile, epilogue, host)
    return lower_direct(root, epilogue, inputs, host)
