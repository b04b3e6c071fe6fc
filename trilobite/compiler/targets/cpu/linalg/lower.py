"""The lowering of `lu` and `triangular_solve`.

Enters: a region of one of them, of 32- or 64-bit floats. Leaves: one step of one kernel for every size; a
unit is a matrix of the batch. Results of `lu` that nobody reads go to temporaries.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType, float32, float64
from trilobite.compiler.program.kernels import Lowering, Operand, Room, Step
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.contraction.words import Content, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.linalg import factor, triangular
from trilobite.compiler.targets.cpu.linalg.factor import FactorWords
from trilobite.compiler.targets.cpu.linalg.triangular import Form, SolveWords
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import symbols_of
from trilobite.native.host import Host, features
from trilobite.native.llvm.text import Text

_SERIAL = 1 << 15  # operations: below, waking another thread costs more than it brings


def accepts(region: Graph) -> str | None:
    """Why this region cannot be lowered; None if it can."""
    if len(region.equations) != 1:
        return "nothing is fused with a factorisation or a triangular system"
    (root,) = region.equations
    if any(v.type.dtype not in (float32, float64) for v in root.inputs):
        return f"{root.primitive.name} of {root.inputs[0].type.dtype.name} has no kernel"
    if _batch(root).words[1] != 1 or not all(product(v.type.shape).fits for v in root.inputs):
        return "a size is the product of too many symbolic sizes"
    return None


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    (root,) = region.equations
    return lower_root(root, region.inputs, region.outputs, features())


def lower_root(root: Equation, inputs: tuple[Var, ...], outputs: tuple[Var, ...], host: Host) -> Lowering:
    """The root of a fusion with these inputs, and these outputs among its results."""
    temporaries: list[Room] = []
    ins = [Operand("in", inputs.index(v)) for v in root.inputs]
    outs = [
        Operand("out", outputs.index(v)) if v in outputs else _temporary(v, temporaries) for v in root.outputs
    ]
    changed = root.inputs[-1]  # becomes the first result
    *_, m, n = changed.type.shape
    form: Form | None = None
    words: FactorWords[Content] | SolveWords[Content]
    if root.primitive.name == "lu":
        sizes = (product([d]) for d in (m, n, root.outputs[1].type.shape[-1]))
        words = FactorWords[Content](*ins, *outs, *sizes)
    else:
        form = Form(**root.attributes)
        turned = None if form.left else _temporary(changed, temporaries)
        size, columns = (m, n) if form.left else (n, m)
        words = SolveWords[Content](ins[0], ins[1], outs[0], turned, product([size]), product([columns]))
    flops = _flops(root)
    step = Step(
        _kernel(root.primitive.name, changed.type.dtype, form, forms(words), host),
        contents(words), _batch(root).words[0], flops, serial=0 < flops < _SERIAL,
    )  # fmt: skip
    in_place: tuple[tuple[int, int], ...] = ()
    if root.outputs[0] in outputs and changed not in root.inputs[:-1]:  # a matrix is read until the end
        in_place = ((outputs.index(root.outputs[0]), inputs.index(changed)),)
    why = "a matrix is a unit; blocks of eight rows"
    return Lowering((step,), tuple(temporaries), in_place=in_place, why=why)


def _temporary(v: Var, temporaries: list[Room]) -> Operand:
    temporaries.append((*v.type.shape, v.type.dtype.itemsize))
    return Operand("temporary", len(temporaries) - 1)


def _batch(root: Equation) -> Product:
    return product(root.inputs[0].type.shape[:-2])


def _flops(root: Equation) -> float:
    """As the primitive counts them; 0 of symbolic sizes."""
    types = [v.type for v in root.inputs], [v.type for v in root.outputs]
    if any(symbols_of(t.shape) for t in types[0]):
        return 0.0
    return float(root.primitive.cost(*types, root.attributes))


@lru_cache(maxsize=64)
def _kernel(
    name: str, dtype: DType, form: Form | None, words: FactorWords[str] | SolveWords[str], host: Host
) -> NativeKernel:
    t = Text(host)
    if form is None:
        factor.emit(t, dtype, read(t, words))
    else:
        triangular.emit(t, dtype, read(t, words), form)
    return NativeKernel(name, t.module())
