"""Matrix products: the lowering of fusions of kind "dot".

Enters: a `fusion` equation whose region is one product with transposes before and an epilogue after it.
Leaves: its kernels and steps. One kernel text serves all sizes of a combination of dtypes, batch axes and
epilogue; sizes and strides are words of the step.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Step
from trilobite.compiler.targets.cpu.contraction.gemm import gemv
from trilobite.compiler.targets.cpu.contraction.gemm.blocked import Blocked
from trilobite.compiler.targets.cpu.contraction.gemm.copies import lower_copy
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Refused
from trilobite.compiler.targets.cpu.contraction.gemm.panels import check_pack, lower_pack
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem, problem_of, root_of, transposed
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import Plan, plan_for, plans
from trilobite.compiler.targets.cpu.contraction.gemm.words import ProductWords, product_of, words_of
from trilobite.compiler.targets.cpu.contraction.sizes import ONE, Product
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.compiler.targets.cpu.contraction.words import Content, contents, forms
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.tuning.choices import choice
from trilobite.ir.graph import Equation, Graph
from trilobite.native.host import Host, features

_SYMBOLIC_UNITS = 64
_MOST_UNITS = 256
# Multiplications below which waking another thread costs more than it brings: about 5 µs of work. A row
# product does one for each element it reads, so it is slower.
_SERIAL, _SERIAL_ROW = 1 << 18, 1 << 15


def accepts(region: Graph) -> str | None:
    """Why this region is no product that can be lowered; None if it is one."""
    try:
        root = root_of(region)
        if root.primitive.name == "gemm_pack":
            check_pack(region, root)
        else:
            _check_panels(problem_of(region), features())
    except Refused as why:
        return str(why)
    return None


def lower(equation: Equation) -> Lowering:
    return lower_region(equation.attributes["region"], features())


def lower_region(region: Graph, host: Host) -> Lowering:
    root = root_of(region)
    if root.primitive.name == "gemm_pack":
        return lower_pack(region, root, host)
    return lower_problem(problem_of(region), host)


def lower_problem(p: Problem, host: Host) -> Lowering:
    column = transposed(p)
    if column is not None and gemv.fits(column):
        p = column
    parts = _gemv(p, host) if gemv.fits(p) else _blocked(p, host)
    work = p.m * p.n * p.k * p.batches
    known = work.known
    step = Step(
        parts.kernel,
        contents(parts.words),
        parts.units,
        flops=2.0 * known if known is not None else 0.0,
        serial=known is not None and known < (_SERIAL_ROW if p.m == ONE else _SERIAL),
        whole=parts.packs,
    )
    copies = tuple(lower_copy(c, i, host) for i, c in enumerate(p.copies))
    in_place = _in_place(p) if parts.reads_once else ()
    return Lowering((*copies, step), tuple(c.bytes for c in p.copies), in_place=in_place, why=parts.why)


class _Parts(NamedTuple):
    kernel: NativeKernel
    words: ProductWords[Content]
    units: int
    packs: bool  # both operands, for every range anew
    reads_once: bool  # nothing is stored to a result before the epilogue has read its operands there
    why: str


def _check_panels(p: Problem, host: Host) -> Plan:
    """The tiling of a product, if panels that were packed before are as wide as it needs them."""
    if not p.packed:
        return plan_for(host, p.accumulator, p.n.known, p.pairs)
    fitting = plans(host, p.accumulator, p.pairs)
    for plan in fitting:
        if p.b.k == Product(plan.columns) and not plan.pairs and p.b.dtype == plan.accumulator:
            return plan
    widths = " or ".join(str(plan.columns) for plan in fitting)
    raise Refused(f"panels of {p.b.k.number} {p.b.dtype}", expected=f"{widths} {p.accumulator}")


@dataclass(frozen=True)
class _Form:
    """All of a problem that decides a kernel's text, which is everything but sizes; equal forms share it."""

    key: tuple[Any, ...]
    problem: Problem = field(compare=False)


def _form(p: Problem) -> _Form:
    sides = tuple(
        (s.dtype, s.line == ONE, s.k == ONE, s.grid is None, s.along, s.nibbles) for s in (p.a, p.b)
    )
    operands = tuple((o.dtype, o.column_stride) for o in p.epilogue.operands)
    after = (p.epilogue.body, operands, p.epilogue.results)
    return _Form((sides, len(p.batch), p.packed, p.multiplied, p.dtype, after), p)


@lru_cache(maxsize=256)
def _blocked_kernel(form: _Form, plan: Plan, host: Host) -> tuple[NativeKernel, bool]:
    """The kernel, and whether sums wait in scratch."""
    p = form.problem
    emitter = Blocked(host, plan, p, forms(words_of(p, 1)))
    return NativeKernel(p.epilogue.named("dot"), emitter.text(), scratch=emitter.layout.end), emitter.waits


@lru_cache(maxsize=256)
def _gemv_kernel(form: _Form, host: Host) -> NativeKernel:
    p = form.problem
    emitter = gemv.Gemv(host, p, forms(words_of(p, 1)))
    return NativeKernel(p.epilogue.named("row_dot"), emitter.text(), scratch=emitter.scratch)


def _blocked(p: Problem, host: Host) -> _Parts:
    plan = _check_panels(p, host)
    plan, units = _scheduled(p, plan, _units(p.batches, p.n, plan.columns, p.m, ROWS))
    kernel, waits = _blocked_kernel(_form(p), plan, host)
    blocks = f"{plan.m_block} x {plan.k_block} x {plan.n_block}"
    why = f"a product in blocks of {blocks}, tiles of {ROWS} x {plan.columns}"
    once = waits or (p.k.known is not None and p.k.known <= plan.k_block * plan.depth)
    return _Parts(kernel, words_of(p, units), units, not p.packed, once, why)


def _scheduled(p: Problem, plan: Plan, units: int) -> tuple[Plan, int]:
    """With what tuning found for products like this. The depth of blocks decides bits: it stays."""
    if any(s.known is None for s in (p.batches, p.m, p.n, p.k)):
        return plan, units
    defaults = {"m_block": plan.m_block, "n_block": plan.n_block, "direct": plan.direct, "units": units}
    found = choice("dot", lambda: _description(p), **defaults)
    blocks = replace(plan, m_block=found["m_block"], n_block=found["n_block"], direct=found["direct"])
    return blocks, min(found["units"], units)


def _description(p: Problem) -> str:
    sizes = "x".join(str(s.known) for s in (p.batches, p.m, p.n, p.k))
    along = ["k" if s.k == ONE else "line" if s.line == ONE else "apart" for s in (p.a, p.b)]
    sides = f"{p.a.dtype} by {along[0]} {p.b.dtype} by {along[1]}"
    after = " ".join(e.primitive.name for e in p.epilogue.body.equations)
    return f"{sizes} {sides}{' packed' * p.packed} to {p.dtype} {after}".rstrip()


def _gemv(p: Problem, host: Host) -> _Parts:
    units = _units(p.batches, p.n, gemv.PANEL)
    why = "one row: the matrix is read once, in the order of memory"
    return _Parts(_gemv_kernel(_form(p), host), words_of(p, units), units, False, True, why)


def _in_place(p: Problem) -> tuple[tuple[int, int], ...]:
    """Results that may take the memory of an operand of the same shape and dtype, which the product itself
    does not read: other tiles need that whole.
    """
    multiplied = {o.index for o in (p.a.buffer, p.b.buffer) if o.role == "in"}
    found: list[tuple[int, int]] = []
    for o in p.epilogue.operands:
        whole = (
            (p.n == ONE or o.column_stride == 1)
            and (p.m == ONE or product_of(o.row_stride) == p.n)
            and (p.batches == ONE or product_of(o.batch_stride) == p.m * p.n)
        )
        results = enumerate(p.epilogue.results if whole and o.input not in multiplied else ())
        found += [(i, o.input) for i, dtype in results if dtype == o.dtype]
    return tuple(found)


def _units(batches: Product, n: Product, columns: int, m: Product = ONE, rows: int = 1) -> int:
    if n.known is None or m.known is None or batches.known is None:
        return _SYMBOLIC_UNITS
    pieces = batches.known * max(-(-n.known // columns), -(-m.known // rows))
    return max(1, min(pieces + pieces % 2, _MOST_UNITS))  # even, for two threads
