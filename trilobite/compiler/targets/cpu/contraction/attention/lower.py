"""The lowering of fusions of kind "attention": a call of the composite that was kept whole."""

from __future__ import annotations

from functools import cache

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.attention.problem import Problem, Refused, problem_of
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.types import Affine, Dim
from trilobite.native.host import Host, features


def claims(e: Equation) -> bool:
    """Is this a call that the kernels here run whole?"""
    try:
        problem_of(e, features())
    except Refused:
        return False
    return True


def accepts(region: Graph) -> str | None:
    if len(region.equations) != 1 or region.equations[0].primitive.name != "call":
        return "attention stands alone"
    try:
        problem_of(region.equations[0], features())
    except Refused as why:
        return str(why)
    return None


@cache
def _kernel(p: Problem, host: Host) -> NativeKernel:
    """Their text is written by modules that a program without attention does not load."""
    if p.half == "backward":
        from trilobite.compiler.targets.cpu.contraction.attention.backward import backward_kernel

        return backward_kernel(p, host)
    from trilobite.compiler.targets.cpu.contraction.attention.forward import forward_kernel

    return forward_kernel(p, host)


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    (call,) = region.equations
    host = features()
    p = problem_of(call, host)
    place = {v: Operand("in", i) for i, v in enumerate(region.inputs)}
    place |= {v: Operand("out", i) for i, v in enumerate(region.outputs)}
    ins, outs = [place[v] for v in call.inputs], [place[v] for v in call.outputs]
    kernel = _kernel(p.form, host)
    mask = ins[3] if p.mask is not None else 0
    if p.half == "backward":
        n = len(ins)
        args = (*ins[:3], ins[n - 3], ins[n - 2], ins[n - 1], *outs[:3], mask, *p.words)
        units = _quotient(p.heads, p.group)
    else:
        args = (*ins[:3], outs[0], outs[1] if p.half == "forward" else 0, mask, *p.words)
        units = p.heads * _blocks(p.queries, p.plan.columns)
    return Lowering((Step(kernel, args, units, _flops(p)),), why="softmax is kept up block by block of keys")


def _quotient(heads: Dim, group: int) -> Dim:
    return heads // group if group > 1 else heads


def _blocks(queries: Dim, columns: int) -> int:
    assert isinstance(queries, int)  # `problem_of` sees to it
    return -(-queries // columns)


def _flops(p: Problem) -> float:
    sizes = (p.heads, p.queries, p.keys)
    if any(isinstance(d, Affine) for d in sizes):
        return 0.0
    per_pair = 2.0 * (p.features + p.value_features) * (2.5 if p.half == "backward" else 1.0)
    return float(p.heads) * float(p.queries) * float(p.keys) * per_pair * (0.5 if p.causal else 1.0)
