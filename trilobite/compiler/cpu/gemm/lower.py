"""Matrix products: the lowering of fusions of kind "dot".

Enters: a `fusion` equation whose region is one product with transposes before and an epilogue after it.
Leaves: its kernels and steps. One kernel text serves all sizes of a combination of dtypes, batch axes and
epilogue; sizes and strides are words of the step.
"""

from __future__ import annotations

from trilobite.compiler.cpu.gemm.blocked import Blocked
from trilobite.compiler.cpu.gemm.convert import accumulator_of
from trilobite.compiler.cpu.gemm.problem import Problem, Refused, problem_of
from trilobite.compiler.cpu.gemm.tiling import ROWS, Tiling, tiling
from trilobite.compiler.cpu.gemm.words import words_of
from trilobite.compiler.kernels import Kernel, Lowering, Step
from trilobite.ir.graph import Equation, Graph
from trilobite.native.host import Host, features

_SYMBOLIC_UNITS = 64
_MOST_UNITS = 256
_SERIAL = 1 << 15  # multiplications: below, waking another thread costs more than it brings


def accepts(region: Graph) -> str | None:
    """Why this region is no product that can be lowered; None if it is one."""
    try:
        problem_of(region)
    except Refused as why:
        return str(why)
    return None


def lower(equation: Equation) -> Lowering:
    region: Graph = equation.attributes["region"]
    return lower_problem(problem_of(region), features())


def lower_problem(p: Problem, host: Host) -> Lowering:
    plan = tiling(host, *accumulator_of(p.a.dtype, p.dtype))
    units = _units(p, plan)
    words = words_of(p, units)
    emitter = Blocked(host, plan, p, words)
    kernel = Kernel(_name(p), emitter.text(), scratch=emitter.layout.end)
    work = p.m * p.n * p.k * p.batches
    step = Step(
        kernel,
        tuple(words.contents),
        units,
        flops=2.0 * work.number if work.known is not None else 0.0,
        serial=work.known is not None and work.known < _SERIAL,
    )
    return Lowering((step,), why=_why(plan))


def _units(p: Problem, plan: Tiling) -> int:
    m, n, batches = p.m.known, p.n.known, p.batches.known
    if m is None or n is None or batches is None:
        return _SYMBOLIC_UNITS
    return max(1, min(batches * max(-(-n // plan.columns), -(-m // ROWS)), _MOST_UNITS))


def _name(p: Problem) -> str:
    after = [e.primitive.name for e in p.epilogue.body.equations]
    return "_".join(["dot", *dict.fromkeys(after)][:5])


def _why(plan: Tiling) -> str:
    blocks = f"{plan.m_block} x {plan.k_block} x {plan.n_block}"
    return f"a product in blocks of {blocks}, tiles of {ROWS} x {plan.columns}"
