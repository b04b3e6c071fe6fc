"""Which values live on grids of integers, and which of them share one.

Enters: a prepared graph and a scheme. Leaves: a `Plan`: the products that run on integers (with the reason
where one does not), the values whose codes somebody reads, and classes of values that share a grid because
they are the same numbers moved about. No numbers are looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from trilobite.base.dtypes import is_float
from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.inline import specialise
from trilobite.framework.nn.module import Module
from trilobite.framework.quantization.prepare import Prepared
from trilobite.framework.quantization.scheme import Scheme
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import symbols_of

MOVES = frozenset(
    {"reshape", "transpose", "slice", "reverse", "concatenate", "pad", "broadcast", "stop_gradient"}
)
_CLAMPS = frozenset({"relu", "relu6", "hardtanh"})
_STRAIGHT = frozenset({"add", "sub", "neg", "mul", "div", "maximum", "minimum"})
_STRAIGHT_CALLS = _CLAMPS | {"leaky_relu"}


@dataclass(frozen=True)
class Product:
    """A convolution or product with a weight. `channels` are the weight's axes that have scales of their
    own, `place` the axis of the result that they become (None: one scale for all).
    """

    equation: Equation
    side: int  # which operand is the weight
    channels: tuple[int, ...]
    place: int | None
    layer: str

    @property
    def x(self) -> Var:
        return self.equation.inputs[1 - self.side]

    @property
    def w(self) -> Var:
        return self.equation.inputs[self.side]


@dataclass(frozen=True)
class Clamp:
    """max(low, min(high, x))"""

    x: Var
    low: float
    high: float


@dataclass
class Plan:
    """Products on integers by their result, sums on integers, why others stay, and classes of values."""

    products: dict[Var, Product] = field(default_factory=dict)
    sums: set[Var] = field(default_factory=set)  # results of reductions that add up codes
    stays: dict[str, str] = field(default_factory=dict)  # layer -> why it is in floating point
    coded: set[Var] = field(default_factory=set)  # values whose codes somebody reads
    without_zero: set[Var] = field(default_factory=set)  # values whose grid must have no zero point
    clamps: dict[Var, Clamp] = field(default_factory=dict)  # by their result
    parents: dict[Var, Var] = field(default_factory=dict)

    def root(self, v: Var) -> Var:
        while self.parents.get(v, v) is not v:
            v = self.parents[v]
        return v

    def join(self, a: Var, b: Var) -> None:
        a, b = self.root(a), self.root(b)
        if a is not b:
            self.parents[b] = a


def make_plan(model: Module, p: Prepared, scheme: Scheme) -> Plan:
    plan = Plan()
    for e in p.graph.equations:
        found = None if not e.outputs or e.outputs[0] in p.stable else clamp_of(p, e)
        if found is not None:
            plan.clamps[e.outputs[0]] = found
    _find_products(model, p, scheme, plan)
    _find_sums(p, plan)
    wanted = [product.x for product in plan.products.values()]
    wanted += [p.makers[v].inputs[0] for v in plan.sums]
    wanted += _stored_at_joins(p, plan)
    _spread(p, plan, wanted)
    for product in plan.products.values():
        if _needs_plain_zero(product):
            plan.without_zero.add(plan.root(product.x))
    return plan


def _find_products(model: Module, p: Prepared, scheme: Scheme, plan: Plan) -> None:
    for e in p.graph.equations:
        if e.primitive.name not in ("conv", "conv_input_grad", "dot") or not _is_numbers(e.outputs[0]):
            continue
        side = next((i for i in (1, 0) if e.inputs[i] in p.stable), None)
        if e.outputs[0] in p.stable:
            continue
        layer = "" if side is None else p.layer(e.inputs[side])
        why = _obstacle(model, p, scheme, e, side, layer)
        if why or side is None:
            plan.stays[layer or f"{e.primitive.name} at {e.location}"] = why
            continue
        channels, place = _channels(e, side)
        if not scheme.per_channel:
            channels, place = (), None
        plan.products[e.outputs[0]] = Product(e, side, channels, place, layer)


def _obstacle(model: Module, p: Prepared, scheme: Scheme, e: Equation, side: int | None, layer: str) -> str:
    """Why a product stays in floating point; empty if it does not."""
    if side is None:
        return "both operands are computed; only products with weights are quantised"
    if layer and scheme.keeps(layer, _submodule(model, layer)):
        return "the scheme keeps it"
    w = e.inputs[side]
    if symbols_of(w.type.shape) or p.array(w) is None:
        return "the size of its weight is open"
    if not np.isfinite(p.weights[w].astype(np.float64)).all():
        return "its weight is not finite"
    if e.primitive.name == "dot" and e.attributes["batch"][0]:
        return "its weight has batches"
    return ""


def _submodule(model: Module, name: str) -> Any:
    try:
        return model.get_submodule(name)
    except Exception:  # a tensor that no module holds
        return None


def _channels(e: Equation, side: int) -> tuple[tuple[int, ...], int | None]:
    """The weight's axes of output channels, and the axis of the result that they are."""
    if e.primitive.name == "conv":
        return (0,), 1
    if e.primitive.name == "conv_input_grad":
        return ((1,), 1) if e.attributes["groups"] == 1 else ((), None)
    contract, batch = e.attributes["contract"], e.attributes["batch"]
    free = [free_axes(v.type.ndim, contract[i], batch[i]) for i, v in enumerate(e.inputs)]
    if len(free[side]) != 1:
        return (), None
    return tuple(free[side]), len(free[0]) if side else 0


def _needs_plain_zero(product: Product) -> bool:
    """With a zero point every element of a result has the same correction, unless zeros are put between."""
    e = product.equation
    if e.primitive.name == "dot":
        contract = e.attributes["contract"][product.side]
        return e.inputs[product.side].type.ndim - len(contract) != 1
    return e.primitive.name == "conv_input_grad"


def _stored_at_joins(p: Prepared, plan: Plan) -> list[Var]:
    """Of two convolutions that are added up one is stored before the other is there: as codes, not as numbers
    of four times the size."""
    sums = [e for e in p.graph.equations if e.primitive.name == "add"]
    return [e.inputs[1] for e in sums if all(_is_convolved(p, plan, v) for v in e.inputs)]


def _is_convolved(p: Prepared, plan: Plan, v: Var) -> bool:
    """A convolution on integers, with what weights add to it."""
    e = p.makers.get(v)
    while e is not None and e.primitive.name == "add":
        others = [w for w in e.inputs if w not in p.stable]
        if len(others) != 1:
            return False
        (v,) = others
        e = p.makers.get(v)
    return e is not None and v in plan.products and e.primitive.name == "conv"


# -- sums ----------------------------------------------------------------------------------------------------


def _find_sums(p: Prepared, plan: Plan) -> None:
    """Sums of what integer products give, through additions and clamps alone: poolings, means over a plane.
    On codes they are exact, so every target gives the same bits.
    """
    straight: set[Var] = set(plan.products)
    for e in p.graph.equations:
        if not e.outputs or not any(v in straight for v in e.inputs) or not _is_numbers(e.outputs[0]):
            continue
        name = e.primitive.name
        moved = name in MOVES or name in _STRAIGHT or name == "window_reduce" or name == "reduce_sum"
        others = [v for v in e.inputs if v not in straight and v not in p.stable]
        if (moved and not others) or (name == "call" and e.attributes["name"] in _STRAIGHT_CALLS):
            straight.update(e.outputs)
            if _adds_up(e) and _count(e) is not None:
                plan.sums.add(e.outputs[0])


def _adds_up(e: Equation) -> bool:
    return e.primitive.name == "reduce_sum" or (
        e.primitive.name == "window_reduce" and e.attributes["kind"] == "sum"
    )


def _count(e: Equation) -> int | None:
    """How many elements a sum adds up; None if that is open."""
    if e.primitive.name == "window_reduce":
        return int(np.prod(e.attributes["size"]))
    sizes = [e.inputs[0].type.shape[a] for a in e.attributes["axes"]]
    return int(np.prod(sizes)) if all(isinstance(d, int) for d in sizes) else None


# -- grids that are shared -----------------------------------------------------------------------------------


def _spread(p: Prepared, plan: Plan, wanted: Iterable[Var]) -> None:
    """Whoever's codes are read, and is only another value moved about, takes its codes from that one."""
    stack = list(wanted)
    while stack:
        v = stack.pop()
        if v in plan.coded:
            continue
        plan.coded.add(v)
        e = p.makers.get(v)
        if e is not None and passes_codes(p, plan, e):
            for source in e.inputs:
                plan.join(v, source)
                stack.append(source)


def passes_codes(p: Prepared, plan: Plan, e: Equation) -> bool:
    """Are the codes of its result those of its operands?"""
    name, v = e.primitive.name, e.outputs[0]
    if v in p.stable or v in plan.products or v in plan.sums or not _is_numbers(v):
        return False
    if name in MOVES or (name == "window_reduce" and e.attributes["kind"] != "sum"):
        return True
    bounds = plan.clamps.get(v)
    if bounds is None:
        return False
    before = p.makers.get(bounds.x)
    return before is not None and passes_codes(p, plan, before)


def clamp_of(p: Prepared, e: Equation) -> Clamp | None:
    """An equation as a clamp between two numbers, if it is one."""
    name = e.primitive.name
    if name == "call" and e.attributes["name"] in _CLAMPS and len(e.inputs) == 1:
        low, high = _bounds(e.attributes["graph"])
        return Clamp(e.inputs[0], low, high)
    if name in ("maximum", "minimum"):
        for i, v in enumerate(e.inputs):
            number = uniform(p, v)
            if number is not None and not np.isnan(number):
                other = e.inputs[1 - i]
                return Clamp(other, number, np.inf) if name == "maximum" else Clamp(other, -np.inf, number)
    return None


def _bounds(body: Graph) -> tuple[float, float]:
    """What a clamp gives for the least and the largest number."""
    small = specialise(body, dict.fromkeys(body.symbols, 1))
    t = small.inputs[0].type
    ends = [run(small, [np.full(t.shape, end, t.dtype)])[0] for end in (-np.inf, np.inf)]
    return float(ends[0].flat[0]), float(ends[1].flat[0])


def uniform(p: Prepared, v: Var) -> float | None:
    """The number that a value is everywhere, if it is made so."""
    e = p.makers.get(v)
    while e is not None and e.primitive.name in ("broadcast", "reshape", "cast"):
        v = e.inputs[0]
        e = p.makers.get(v)
    if e is not None and e.primitive.name == "full":
        return float(np.real(e.attributes["value"]))
    found = p.array(v) if v in p.stable else None
    return float(found.flat[0]) if found is not None and found.size == 1 else None


def _is_numbers(v: Var) -> bool:
    return is_float(v.type.dtype)
