"""Groups: which equations become one function.

Enters: an expanded graph. Leaves: a graph of fusions, by the shared engine: chains of elementwise equations
of one shape with the numbers and broadcasts that they read (`loops`), products and convolutions with the
chain that follows them (`contraction`), everything else one equation at a time (`single`). `vector_plan` and
`contraction_plan` read a region for whoever writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from trilobite.base.dtypes import is_float, is_integer
from trilobite.compiler.graph.fuse import FusionPolicy, Kind, fuse
from trilobite.compiler.targets.dlp.contraction import accepts
from trilobite.compiler.targets.dlp.layouts import Layout
from trilobite.compiler.targets.dlp.problems import one_stride, product_of, result_groups
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.formats import FORMATS, computes
from trilobite.compiler.targets.dlp.vector.rows import ROWS
from trilobite.compiler.targets.dlp.writer import nram_room
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.processor.machine import Machine

SINGLE = frozenset(
    """
    broadcast transpose slice pad concatenate reverse update_slice dynamic_slice dynamic_update_slice
    constant full iota reduce_sum reduce_prod reduce_max reduce_min gather scatter scatter_reduce take_along
    scatter_along sort conv_input_grad conv_weight_grad window_reduce call
    """.split()
)
_BITS = frozenset({"cast", "bitcast", "select", "stop_gradient", "barrier"})
_POINTERS = 32  # parameters of a routine
_SMALLEST = 256  # bytes of NRAM for a tile of a chain and its part of what the chain keeps beside tiles
_LARGEST = 48  # equations of a chain: more would leave only small tiles
_FROM_MEMORY = 1 << 22  # elements that no scratchpad holds until they are read again
_TRANSPOSED = 1 << 15  # elements of a transposition that is a group of its own
_CHAIN = 6  # cheap equations that are computed again by each reader


@dataclass(frozen=True)
class VectorPlan:
    """A chain of one shape: operand tiles with their strides over it, numbers, equations."""

    shape: tuple[int, ...]
    operands: tuple[Var, ...]  # values of the region's shape: inputs, or what a broadcast gives
    sources: tuple[int, ...]  # which input of the region each of them lies in
    strides: tuple[tuple[int, ...], ...]
    numbers: Mapping[Var, Any]
    equations: tuple[Equation, ...]


def vector_plan(region: Graph, layout: Layout = Layout({})) -> VectorPlan | str:  # noqa: B008
    """How a chain runs, or why it is none."""
    body = [e for e in region.equations if e.primitive.name in ROWS]
    if not body or len(body) > _LARGEST:
        return "no elementwise chain of a length that fits"
    shape = extents(body[-1].outputs[0])
    reader = _Reader(region, shape, layout)
    for e in region.equations:
        why = reader.read(e)
        if why:
            return why
    if len(reader.operands) + len(region.outputs) > _POINTERS:
        return "more operands and results than a routine takes"
    return VectorPlan(
        shape,
        tuple(reader.operands),
        tuple(reader.sources),
        tuple(reader.strides),
        reader.numbers,
        tuple(body),
    )


class _Reader:
    def __init__(self, region: Graph, shape: tuple[int, ...], layout: Layout) -> None:
        self.shape, self.layout = shape, layout
        self.inputs = {v: i for i, v in enumerate(region.inputs)}
        self.operands: list[Var] = []
        self.sources: list[int] = []
        self.strides: list[tuple[int, ...]] = []
        self.numbers: dict[Var, Any] = {}
        self.made: set[Var] = set()

    def read(self, e: Equation) -> str:
        name = e.primitive.name
        if name in ROWS:
            return self._chained(e)
        if name == "full":
            self.numbers[e.outputs[0]] = e.attributes["value"]
        elif name == "constant" and e.attributes["value"].array.size == 1:
            self.numbers[e.outputs[0]] = e.attributes["value"].array.reshape(())
        elif name == "broadcast":
            return self._repeated(e)
        else:
            return f"{name} is not elementwise"
        return ""

    def _repeated(self, e: Equation) -> str:
        (x,), (y,) = e.inputs, e.outputs
        if x in self.numbers:
            self.numbers[y] = self.numbers[x]
            return ""
        if x not in self.inputs or tuple(y.type.shape) != self.shape:
            return "a broadcast of what the chain computes"
        own, steps = self.layout.strides(x), [0] * len(self.shape)
        for axis, n, stride in zip(e.attributes["axes"], x.type.shape, own, strict=True):
            steps[axis] = stride if n == self.shape[axis] else 0
        self._operand(y, self.inputs[x], tuple(steps))
        return ""

    def _operand(self, v: Var, source: int, strides: tuple[int, ...]) -> None:
        self.operands.append(v)
        self.sources.append(source)
        self.strides.append(strides)
        self.made.add(v)

    def _chained(self, e: Equation) -> str:
        if any(tuple(v.type.shape) != self.shape for v in e.outputs):
            return "equations of several shapes"
        if e.primitive.name not in _BITS and not all(map(_computed, (*e.inputs, *e.outputs))):
            return "a format without arithmetic"
        for v in e.inputs:
            if v in self.made or v in self.numbers:
                continue
            if v not in self.inputs or tuple(v.type.shape) != self.shape:
                return "operands of several shapes"
            self._operand(v, self.inputs[v], self.layout.strides(v))
        self.made.update(e.outputs)
        return ""


def _computed(v: Var) -> bool:
    return computes(v.type.dtype)


def _accepts_vector(machine: Machine) -> Callable[[Graph], str | None]:
    most = min(_POINTERS, nram_room(machine) // _SMALLEST)

    def accepts_region(region: Graph) -> str | None:
        found = vector_plan(region)
        if isinstance(found, str):
            return found
        many = len(region.equations) > 1 and len(found.operands) + len(region.outputs) > most
        return "more tiles than a small scratchpad holds" if many else None

    return accepts_region


REDUCTIONS = frozenset({"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})


def _widens(cast: Equation, readers: Set[str]) -> bool:
    """Do reductions alone read what is cast, and does one instruction widen it?"""
    narrow, wide = cast.inputs[0].type.dtype, cast.outputs[0].type.dtype
    same = (is_integer(narrow) and is_integer(wide)) or (is_float(narrow) and is_float(wide))
    return bool(readers) and readers <= REDUCTIONS and same and {narrow, wide} <= FORMATS.keys()


def _accepts_single(region: Graph) -> str | None:
    *before, last = region.equations
    if len(before) == 1 and before[0].primitive.name == "cast" and last.primitive.name in REDUCTIONS:
        return None if _widens(before[0], {last.primitive.name}) else "one instruction does not widen it"
    if before:
        return "it runs alone"
    return None if region.equations[0].primitive.name in SINGLE else "no kernel runs it"


# -- contractions --------------------------------------------------------------------------------------------

CONTRACTIONS = frozenset({"dot", "conv"})
_EXTRAS = 4  # operands of an epilogue


@dataclass(frozen=True)
class ContractionPlan:
    """A product or convolution, and the chain that its results go through; none if it stands alone.

    `operands` are the chain's besides the result itself, `sources` the inputs of the region they lie in.
    """

    equation: Equation
    chain: VectorPlan | None
    operands: tuple[Var, ...]
    sources: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def contraction_plan(region: Graph, layout: Layout = Layout({})) -> ContractionPlan | str:  # noqa: B008
    """How a product with its epilogue runs, or why it does not."""
    heads = [e for e in region.equations if e.primitive.name in CONTRACTIONS]
    if len(heads) != 1 or any(v not in region.inputs for v in heads[0].inputs):
        return "not one product of values in memory"
    (head,) = heads
    if len(region.equations) == 1:
        return ContractionPlan(head, None, (), (), ())
    out = head.outputs[0]
    inputs = (out, *region.inputs)
    rest = [e for e in region.equations if e is not head]
    plan = vector_plan(Graph(inputs, rest, region.outputs), layout)
    if isinstance(plan, str):
        return plan
    if out in region.outputs or len(region.outputs) > 2 or out not in plan.operands:
        return "the product's own result is wanted, too"
    rows = [(v, at - 1, s) for v, at, s in zip(plan.operands, plan.sources, plan.strides, strict=True)]
    extra = [row for row in rows if row[0] is not out]
    if len(extra) > _EXTRAS or not all(_reaches(head, plan.shape, s) for _, _, s in extra):
        return "operands that do not follow the product's axes"
    names, places, strides = zip(*extra, strict=True) if extra else ((), (), ())
    return ContractionPlan(head, plan, tuple(names), tuple(places), tuple(strides))


def _reaches(head: Equation, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Has a product's operand one stride for rows, one for columns, one for the batch?"""
    if head.primitive.name != "dot":
        return True
    return all(one_stride(shape, strides, g) is not None for g in result_groups(head))


def _accepts_contraction(machine: Machine) -> Callable[[Graph], str | None]:
    def accepts_region(region: Graph) -> str | None:
        plan = contraction_plan(region)
        if isinstance(plan, str):
            return plan
        head = plan.equation
        if head.primitive.name == "dot" and plan.chain is not None:
            return accepts(product_of(head), machine)
        return None

    return accepts_region


def policy(machine: Machine) -> FusionPolicy:
    """What becomes one function on a machine."""
    kinds = {
        "loops": Kind("loops", _accepts_vector(machine)),
        "single": Kind("single", _accepts_single),
        "contraction": Kind("contraction", _accepts_contraction(machine)),
    }
    roots = {**dict.fromkeys(SINGLE, "single"), **dict.fromkeys(CONTRACTIONS, "contraction")}
    return FusionPolicy(
        kinds, roots, largest=_LARGEST, constant=1, from_memory=_FROM_MEMORY, transposed=_TRANSPOSED,
        chain=_CHAIN, narrow=True, widens=_widens,
    )  # fmt: skip


def group(graph: Graph, machine: Machine) -> Graph:
    """The graph as fusions."""
    return fuse(graph, policy(machine))
