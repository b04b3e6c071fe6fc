"""One group to one function: the table of what writes which primitive.

Enters: a fusion's kind and region, a kernel module, a machine. Leaves: a `LoweredGroup`. Equal regions are
lowered once by whoever calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from trilobite.base.errors import IRError
from trilobite.compiler.targets.dlp.contraction import accepts, lower_contraction, planned
from trilobite.compiler.targets.dlp.contraction.behind import Beside
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.search import Found
from trilobite.compiler.targets.dlp.drains import drain_of
from trilobite.compiler.targets.dlp.expand import windows
from trilobite.compiler.targets.dlp.groups import ContractionPlan, VectorPlan, contraction_plan, vector_plan
from trilobite.compiler.targets.dlp.interfaces import (
    Convolution,
    Epilogue,
    LoweredGroup,
    Problem,
    Product,
    Tensor,
)
from trilobite.compiler.targets.dlp.kernels import (
    attention,
    depthwise,
    indexed,
    movement,
    passes,
    pooling,
    product,
    reduce,
)
from trilobite.compiler.targets.dlp.kernels.strided import Axis
from trilobite.compiler.targets.dlp.layouts import Layout
from trilobite.compiler.targets.dlp.problems import (
    convolution_of,
    convolution_result,
    product_of,
    product_result,
)
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.chain import Chain
from trilobite.compiler.targets.dlp.vector.formats import WORDS, format_of
from trilobite.compiler.targets.dlp.writer import GDRAM, Writer, nram_room
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.ir import Constant, KernelModule
from trilobite.processor.machine import Machine


class Setting:
    """Where functions are written to, and for what."""

    def __init__(self, module: KernelModule, machine: Machine, cores: int) -> None:
        self.module, self.machine, self.cores = module, machine, cores


Lower = Callable[[Setting, str, Equation, Layout], LoweredGroup]


def lower_group(
    s: Setting, name: str, kind: str, region: Graph, layout: Layout, **chosen: Any
) -> LoweredGroup:
    """`chosen`: of a contraction what is decided already (`lower_contraction`)."""
    if kind == "loops":
        return _vector(s, name, region, layout)
    if kind == "contraction":
        return _contraction(s, name, region, layout, **chosen)
    *before, e = region.equations
    if before:  # a cast that a reduction makes of what it reads
        return _reduced(s, name, e, before[0].inputs[0], layout)
    return SINGLES[e.primitive.name](s, name, e, layout)


def lower_copy(
    s: Setting, name: str, shape: Sequence[int], item: int, strides: tuple[Sequence[int], Sequence[int]]
) -> LoweredGroup:
    """The same values with other strides: (from, to)."""
    m = movement.Moves(s.module, name, 2, s.machine, s.cores, item)
    x, y = m.w.params
    m.copy(y, x, [Axis(n, to, own) for n, own, to in zip(shape, *strides, strict=True)])
    return m.done("axes in another order")


def operands_of(kind: str, region: Graph) -> tuple[int, ...]:
    """Which inputs of a region the function's pointers are, in order."""
    if kind == "loops":
        plan = vector_plan(region)
        assert isinstance(plan, VectorPlan)
        return plan.sources
    if kind == "contraction":
        found = contraction_plan(region)
        assert isinstance(found, ContractionPlan)
        first = tuple(region.inputs.index(v) for v in found.equation.inputs)
        return (*first, *found.sources)
    places = {v: i for i, v in enumerate(region.inputs)}
    return tuple(places[v] for v in region.equations[0].inputs)


def _vector(s: Setting, name: str, region: Graph, layout: Layout) -> LoweredGroup:
    plan = vector_plan(region, layout)
    if isinstance(plan, str):
        raise IRError(f"a group that is no chain: {plan}")
    chain = Chain(plan.equations, plan.operands, region.outputs, plan.numbers, s.machine)
    order = layout.order(region.outputs[0])
    shape = tuple(plan.shape[a] for a in order)
    work = passes.Pass(shape, tuple(tuple(s[a] for a in order) for s in plan.strides), chain)
    return passes.write_pass(s.module, name, work, s.machine, s.cores)


# -- moves ---------------------------------------------------------------------------------------------------


def _move(write: Callable[..., None], *names: str) -> Lower:
    """A move whose attributes of these names are passed on."""

    def lower(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
        item = e.outputs[0].type.dtype.itemsize
        m = movement.Moves(s.module, name, len(e.inputs) + 1, s.machine, s.cores, item)
        shapes = [tuple(v.type.shape) for v in e.inputs]
        m.given, m.far = [layout.strides(v) for v in e.inputs], layout.strides(e.outputs[0])
        write(m, shapes, tuple(e.outputs[0].type.shape), *(e.attributes[n] for n in names))
        return m.done()

    return lower


def _pad(m: movement.Moves, shapes: Any, out: Any, low: Any, between: Any, value: Any, dtype: Any) -> None:
    element = np.asarray(value)
    from trilobite.ir.primitives.cast import by_value

    with np.errstate(all="ignore"):
        raw = by_value(element, dtype)
    word = WORDS[dtype.itemsize]
    bits = int.from_bytes(np.asarray(raw).tobytes(), "little")
    movement.pad(m, shapes, out, low, between, (word, bits))


def _lower_pad(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    dtype = e.outputs[0].type.dtype
    m = movement.Moves(s.module, name, 2, s.machine, s.cores, dtype.itemsize)
    shapes = [tuple(v.type.shape) for v in e.inputs]
    m.given, m.far = [layout.strides(v) for v in e.inputs], layout.strides(e.outputs[0])
    a = e.attributes
    _pad(m, shapes, tuple(e.outputs[0].type.shape), a["low"], a["between"], a["value"], dtype)
    return m.done()


def _dynamic(write: Callable[..., None], first: int) -> Lower:
    def lower(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
        item = e.outputs[0].type.dtype.itemsize
        m = movement.Moves(s.module, name, len(e.inputs) + 1, s.machine, s.cores, item)
        formats = [format_of(v.type.dtype) for v in e.inputs[first:]]
        shapes = [tuple(v.type.shape) for v in e.inputs[:first]]
        write(m, shapes, tuple(e.outputs[0].type.shape), formats)
        return m.done("strided copies at places read from memory")

    return lower


def _full(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    out = e.outputs[0].type
    m = movement.Moves(s.module, name, 1, s.machine, s.cores, out.dtype.itemsize)
    from trilobite.ir.primitives.cast import by_value

    with np.errstate(all="ignore"):
        raw = np.asarray(by_value(np.asarray(e.attributes["value"]), out.dtype))
    bits = int.from_bytes(raw.tobytes(), "little")
    m.fill(m.w.params[0], prod(extents(out)), WORDS[out.dtype.itemsize], bits)
    return m.done("fill")


def _iota(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    out = e.outputs[0].type
    fmt, item, count = format_of(out.dtype), out.dtype.itemsize, int(out.shape[0])
    w = Writer(s.module, name, [GDRAM], s.machine, s.cores)
    step = min(count, (nram_room(s.machine) - 1024) // item)
    tile = w.buffer("iota", step * item)
    is_float = fmt.kind == "float"
    with w.shared_loop(-(-count // step)) as i:
        at = w.mul(i, step)
        n = step if count % step == 0 else w.least(step, w.sub(count, at))
        first = w.value(at)
        start = w.b.convert(first, fmt) if fmt is not I64 else first
        if isinstance(at, int):
            start = Constant(fmt, float(at) if is_float else at)
        w.vector("VIOTA", fmt, tile, n, start, Constant(fmt, 1.0 if is_float else 1))
        w.copy(w.at(w.params[0], w.mul(at, item)), tile, w.mul(n, item))
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"counts to {count}")


# -- the rest ------------------------------------------------------------------------------------------------


def _reduced(s: Setting, name: str, e: Equation, source: Var, layout: Layout) -> LoweredGroup:
    """`source`: where its operand lies, which may be narrower."""
    x, order = e.inputs[0].type, layout.order(source)
    shape = [extents(x)[a] for a in order]
    places = sorted(order.index(a) for a in e.attributes["axes"])
    first, last = places[0], places[-1]
    outer, length = prod(shape[:first]), prod(shape[first : last + 1])
    fmt, op = format_of(x.dtype), e.primitive.name.removeprefix("reduce_")
    given = format_of(source.type.dtype)
    r = reduce.Reduction(outer, length, prod(shape[last + 1 :]), fmt, op, given)
    return reduce.write_reduction(s.module, name, r, s.machine, s.cores)


def _reduce(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    return _reduced(s, name, e, e.inputs[0], layout)


def _rows(e: Equation, count: int, fmt: Any = None) -> indexed.Rows:
    x = e.inputs[0].type
    width = prod(extents(x)[1:])
    return indexed.Rows(int(x.shape[0]), width, count, fmt or WORDS[x.dtype.itemsize], x.dtype.itemsize)


def _gather(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    if e.attributes["axis"] == 1:
        return indexed.write_take_shared(s.module, name, _lanes(e), s.machine, s.cores)
    return indexed.write_gather(s.module, name, _rows(e, extents(e.inputs[1])[0]), s.machine, s.cores)


_COMBINE = {"set": "set", "add": "VAV", "mul": "VMV", "max": "VGTM", "min": "VLTM"}


def _scatter(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    op = _COMBINE[e.attributes["kind"]]
    fmt = None if op == "set" else format_of(e.inputs[0].type.dtype)
    rows = _rows(e, extents(e.inputs[1])[0], fmt)
    return indexed.write_scatter(s.module, name, rows, op, s.machine, s.cores)


def _lanes(e: Equation, fmt: Any = None) -> indexed.Lanes:
    x = e.inputs[0].type
    lanes, size = extents(x)
    word = fmt or WORDS[x.dtype.itemsize]
    return indexed.Lanes(lanes, size, extents(e.inputs[1])[-1], word, x.dtype.itemsize)


def _take_along(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    return indexed.write_take_along(s.module, name, _lanes(e), s.machine, s.cores)


def _scatter_along(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    kind = e.attributes["kind"]
    fmt = None if kind == "set" else format_of(e.inputs[0].type.dtype)
    return indexed.write_scatter_along(s.module, name, _lanes(e, fmt), kind, s.machine, s.cores)


def _window(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    found = windows.pooling_of(e)
    assert found is not None
    homes = layout.homes.get(e.inputs[0]), layout.homes.get(e.outputs[0])
    return pooling.write_pooling(s.module, name, found, s.machine, s.cores, homes)


def _sort(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    x = e.inputs[0].type
    lines = indexed.Lines(prod(extents(x)[:-1]), int(x.shape[-1]), format_of(x.dtype))
    return indexed.write_sort(s.module, name, lines, s.machine, s.cores)


def contraction_of(region: Graph, layout: Layout, machine: Machine) -> tuple[Problem, Epilogue | None]:
    """A product or convolution with what follows it, as the contraction room takes it."""
    plan = contraction_plan(region, layout)
    if isinstance(plan, str):
        raise IRError(f"a group that is no product: {plan}")
    e = plan.equation
    home, last = layout.homes.get(e.inputs[0]), layout.homes.get(region.outputs[0])
    if e.primitive.name == "dot":
        made = product_of(e, [layout.strides(v) for v in e.inputs])
        problem: Problem = replace(made, x=replace(made.x, home=home), out=replace(made.out, home=last))
        placed: Callable[..., Tensor] = product_result
    else:
        out = layout.strides(region.outputs[0])
        conv = convolution_of(e, [*(layout.strides(v) for v in e.inputs), out])
        problem = replace(conv, x=replace(conv.x, home=home), y=replace(conv.y, home=last))
        placed = convolution_result
    if isinstance(problem, Product) and accepts(problem, machine) is not None:
        return problem, None
    return problem, _epilogue(machine, region, plan, layout, placed)


def plan_of(s: Setting, region: Graph, layout: Layout, beside: Beside) -> tuple[Plan, Found] | None:
    """How a contraction runs on the matrix unit, where nothing else could run it."""
    problem, epilogue = contraction_of(region, layout, s.machine)
    if accepts(problem, s.machine) is not None or (isinstance(problem, Convolution) and problem.groups > 1):
        return None
    return planned(problem, epilogue, s.machine, s.cores, beside)


def _contraction(s: Setting, name: str, region: Graph, layout: Layout, **chosen: Any) -> LoweredGroup:
    problem, epilogue = contraction_of(region, layout, s.machine)
    if isinstance(problem, Product) and accepts(problem, s.machine) is not None:
        return product.write_product(s.module, name, problem, s.machine, s.cores)
    if isinstance(problem, Convolution):
        single = depthwise.lower_depthwise(s.module, name, problem, epilogue, s.machine, s.cores)
        if single is not None:
            return single
    return _contracted(s, name, problem, epilogue, **chosen)


def _epilogue(
    machine: Machine, region: Graph, plan: ContractionPlan, layout: Layout, placed: Callable[..., Tensor]
) -> Epilogue | None:
    if plan.chain is None:
        return None
    e, chain = plan.equation, plan.chain
    inputs: tuple[Var, ...] = (e.outputs[0], *plan.operands)
    body = Chain(chain.equations, inputs, region.outputs, chain.numbers, machine)
    pairs = zip(plan.operands, plan.strides, strict=True)
    homes = layout.homes
    operands = tuple(replace(placed(e, v.type.dtype, strides), home=homes.get(v)) for v, strides in pairs)
    results = tuple(
        replace(placed(e, v.type.dtype, layout.strides(v)), home=homes.get(v)) for v in region.outputs
    )
    drain, end, equations = drain_of(plan, region)
    if not drain:
        return Epilogue(operands, results, body)
    if not equations:
        return Epilogue(operands, results, body, drain)
    used = {v for x in equations for v in x.inputs}
    numbers = tuple(i for i, v in enumerate(plan.operands) if v in used)
    inputs = (end, *(plan.operands[i] for i in numbers))
    rest = Chain(equations, inputs, region.outputs, chain.numbers, machine)
    return Epilogue(operands, results, body, drain, end.type.dtype, rest, numbers)


def _conv(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    return _contracted(
        s, name, convolution_of(e, [layout.strides(v) for v in (*e.inputs, e.outputs[0])]), None
    )


def _contracted(
    s: Setting, name: str, problem: Problem, epilogue: Epilogue | None, **chosen: Any
) -> LoweredGroup:
    made = lower_contraction(s.module, name, problem, epilogue, s.machine, s.cores, **chosen)
    s.module.functions[made.function].is_routine = True
    return made


def _attention(s: Setting, name: str, e: Equation, layout: Layout) -> LoweredGroup:
    asked = attention.attention_of(e, s.machine)
    assert asked is not None, "claimed calls only"
    return attention.lower_attention(s.module, name, asked, s.machine, s.cores)


SINGLES: dict[str, Lower] = {
    "call": _attention,
    "broadcast": _move(movement.broadcast, "axes"),
    "transpose": _move(movement.transpose, "axes"),
    "reverse": _move(movement.reverse, "axes"),
    "slice": _move(movement.slice_, "start", "step"),
    "update_slice": _move(movement.update_slice, "start", "step"),
    "concatenate": _move(movement.concatenate, "axis"),
    "pad": _lower_pad,
    "dynamic_slice": _dynamic(movement.dynamic_slice, 1),
    "dynamic_update_slice": _dynamic(movement.dynamic_update, 2),
    "full": _full,
    "iota": _iota,
    "reduce_sum": _reduce,
    "reduce_prod": _reduce,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "scatter_reduce": _scatter,
    "take_along": _take_along,
    "scatter_along": _scatter_along,
    "sort": _sort,
    "window_reduce": _window,
    "conv_input_grad": _conv,
    "conv_weight_grad": _conv,
}
