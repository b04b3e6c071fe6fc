"""A small graph as a list of NumPy calls, without the way through `bind`.

Enters: equations over arrays of known types. Leaves: a `Replay`, called with arrays; `divided` takes the
graph of a function and its pullback apart into what runs at once and what runs when a gradient arrives. The
calls are the rules of the primitives, so results have the bits of the plain meaning. Three things are left
out: what does not depend on the operands is computed once, repeated axes are left to NumPy's own
broadcasting, and warnings are switched off once for all calls. A graph with control flow, effects or several
results of one equation is no `Replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import accumulator
from trilobite.base.quiet import begin, end
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.common import OWN
from trilobite.ir.primitives.dot import as_small_product
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
Run = Callable[[list[Array]], Sequence[Array]]
Step = tuple[Callable[..., Any], int, int | None, tuple[int, ...] | None]
_BROADCASTING = frozenset(
    "add sub mul div maximum minimum eq ne lt le gt ge and or xor select copysign atan2 hypot".split()
)
"""Elementwise primitives whose rules are NumPy's functions, which repeat operands of size 1 themselves."""

_NEW_ARRAYS = _BROADCASTING | frozenset("reduce_sum reduce_max reduce_min dot exp log neg sqrt tanh".split())
"""Primitives whose rules never give a view or an operand back."""


class Part(NamedTuple):
    """Some equations of a graph with what enters and leaves them."""

    inputs: tuple[Var, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Var, ...]


def fits(graph: Graph) -> bool:
    """Can it be replayed?"""
    return not graph.has_effects and all(not any(True for _ in e.regions()) for e in graph.equations)


def is_fresh(graph: Graph) -> bool:
    """Is its one result an array that its last call makes, and nothing else refers to?"""
    made = {e.outputs[0]: e.primitive.name for e in graph.equations}
    return len(graph.outputs) == 1 and made.get(graph.outputs[0]) in _NEW_ARRAYS


def whole(graph: Graph) -> Part:
    return Part(graph.inputs, _needed(graph.equations, graph.outputs), graph.outputs)


def divided(graph: Graph, operands: int, results: int) -> tuple[Part, Part]:
    """The graph of (operands, cotangents) -> (results, cotangents of operands) in two parts: results and what
    is kept for the way back; from what was kept and the cotangents, those of the operands. What the results
    do not need is computed on the way back.
    """
    ahead = _needed(graph.equations, graph.outputs[:results])
    done = {v for e in ahead for v in e.outputs} | set(graph.inputs[:operands])
    rest = [e for e in graph.equations if not done.intersection(e.outputs)]
    back = _needed(rest, graph.outputs[results:])
    read = dict.fromkeys(v for e in back for v in e.inputs) | dict.fromkeys(graph.outputs[results:])
    kept = tuple(v for v in read if v in done)
    forward = Part(graph.inputs[:operands], ahead, (*graph.outputs[:results], *kept))
    return forward, Part((*kept, *graph.inputs[operands:]), back, graph.outputs[results:])


def _needed(equations: Sequence[Equation], outputs: Sequence[Var]) -> tuple[Equation, ...]:
    wanted, chosen = set(outputs), []
    for e in reversed(equations):
        if wanted.intersection(e.outputs):
            chosen.append(e)
            wanted.update(e.inputs)
    return tuple(reversed(chosen))


def _without_stops(part: Part) -> Part:
    """Derivatives are done: what only stopped them is left out."""
    same: dict[Var, Var] = {}
    equations: list[Equation] = []
    for e in part.equations:
        inputs = tuple(same.get(v, v) for v in e.inputs)
        if e.primitive.name == "stop_gradient":
            same[e.outputs[0]] = inputs[0]
        else:
            equations.append(Equation(e.primitive, inputs, e.attributes, e.outputs, e.location))
    return Part(part.inputs, tuple(equations), tuple(same.get(v, v) for v in part.outputs))


class Replay:
    """The calls of a part, in order, over a list of arrays that grows by one result each."""

    __slots__ = ("_constants", "_inputs", "_results", "_steps", "run")
    run: Run

    def __init__(self, part: Part) -> None:
        self._inputs = len(part.inputs)
        self._constants: list[Array] = []
        self._steps: list[Step] = []
        part = _without_stops(part)
        known: dict[Var, Array] = {}
        moving: list[Equation] = []
        for e in part.equations:
            if all(v in known for v in e.inputs) and not e.primitive.multiple:
                known[e.outputs[0]] = _constant(e, known)
            else:
                moving.append(e)
        views = _left_to_numpy(moving, part.outputs)
        at = {v: i for i, v in enumerate(part.inputs)}
        for v, array in known.items():
            at[v] = self._inputs + len(self._constants)
            self._constants.append(array)
        for e in moving:
            self._enter(e, at, views)
        self._results = [at[v] for v in part.outputs]
        calls = self._one_call() or _walker(self._steps, self._constants, self._results)
        self.run = _quickest(part, moving, known, calls)

    def _enter(self, e: Equation, at: dict[Var, int], views: dict[Var, tuple[int, ...]]) -> None:
        out = e.outputs[0]
        if views.get(out) == e.inputs[0].type.shape:
            at[out] = at[e.inputs[0]]  # NumPy aligns it as it is
            return
        call = _reshaped(views[out]) if out in views else _call(e)
        first, *more = (at[v] for v in e.inputs)
        rest = tuple(more[1:])
        self._steps.append((call, first, more[0] if more else None, rest or None))
        at[out] = made = self._inputs + len(self._constants) + len(self._steps) - 1
        if e.primitive.multiple:  # what the call gives is taken apart
            for i, v in enumerate(e.outputs):
                self._steps.append((itemgetter(i), made, None, None))
                at[v] = made + i + 1

    def _one_call(self) -> Run | None:
        """The whole as one call with all operands in their order, if it is that."""
        if len(self._steps) != 1 or self._constants:
            return None
        call, first, second, rest = self._steps[0]
        places = [first, *(() if second is None else (second,)), *(rest or ())]
        if places != list(range(self._inputs)):
            return None
        if isinstance(call, Total) and self._results == [self._inputs]:
            return call.of_one
        chosen = _chooser(self._results)

        def run(arrays: list[Array]) -> Sequence[Array]:
            token = begin()
            try:
                return chosen([*arrays, call(*arrays)])
            finally:
                end(token)

        return run


def _quickest(part: Part, moving: Sequence[Equation], known: dict[Var, Array], calls: Run) -> Run:
    """The inner loops of the calls without the calls, where they give the same bits."""
    from trilobite.framework.replay.inner_loops import in_loops  # machine code comes in with the first plan

    loops = in_loops(part.inputs, moving, known, part.outputs, calls) if moving else None
    if loops is None:
        return calls
    random = np.random.default_rng(len(moving))
    trial = [_random(random, v.type) for v in part.inputs]
    turned = [np.asfortranarray(a) if a.ndim > 1 else np.repeat(a, 2)[::2].reshape(a.shape) for a in trial]
    return loops if all(_agree(loops(xs), calls(xs)) for xs in (trial, turned)) else calls


def _agree(found: Sequence[Array], meant: Sequence[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(found, meant, strict=True))


def _random(random: np.random.Generator, type: TensorType) -> Array:
    values = random.standard_normal(type.shape) * 3
    return np.asarray(values > 0 if type.dtype == bool else values).astype(type.dtype)


def _walker(steps: list[Step], constants: list[Array], results: list[int]) -> Run:
    chosen = _chooser(results)

    def run(arrays: list[Array]) -> Sequence[Array]:
        held = [*arrays, *constants]
        push = held.append
        token = begin()
        try:
            for call, a, b, rest in steps:
                if b is None:
                    push(call(held[a]))
                elif rest is None:
                    push(call(held[a], held[b]))
                else:
                    push(call(held[a], held[b], *[held[i] for i in rest]))
        finally:
            end(token)
        return chosen(held)

    return run


def _chooser(places: list[int]) -> Run:
    """The elements of a list at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda held: [held[i] for i in places]


# -- single calls ----------------------------------------------------------------------------------------


def _call(e: Equation) -> Callable[..., Any]:
    """An equation as a function of its operands alone, with an array as its result."""
    p, types, attributes = e.primitive, [v.type for v in e.inputs], e.attributes
    rule: Any = p.evaluate if p.eager is None else _chosen(p.eager, types, attributes)
    rule = getattr(rule, "plain", rule)
    if all(t.dtype.num < OWN for t in types):
        rule = getattr(rule, "for_numpys_dtypes", rule)
    if p.name == "reduce_sum" and accumulator(types[0].dtype) is types[0].dtype:
        return Total(attributes["axes"], types[0])
    if p.name in _EXTREMES and types[0].dtype.num < OWN and 0 not in types[0].shape:
        return _extreme(_EXTREMES[p.name], attributes["axes"])
    if p.name == "select":
        rule = np.where  # as the rule says, for small arrays
    if p.name == "dot" and (product := as_small_product(types[0], types[1], **attributes)) is not None:
        rule, attributes = product, {}
    call = partial(rule, **attributes) if attributes else rule
    return call if e.outputs[0].type.shape or p.multiple else _as_array(call)


def _chosen(eager: Any, types: Sequence[TensorType], attributes: Any) -> Any:
    """What an upper room runs instead of a rule, for operands of these types."""
    return eager.for_types(types, attributes) if hasattr(eager, "for_types") else eager


_add_up, _asarray = np.add.reduce, np.asarray
_EXTREMES = {"reduce_max": np.maximum, "reduce_min": np.minimum}


class Total:
    """The rule of `reduce_sum` for dtypes that add up in themselves: alone, or as one of several calls."""

    def __init__(self, axes: tuple[int, ...], operand: TensorType) -> None:
        self.axes = None if len(axes) == len(operand.shape) else axes
        self.dtype = operand.dtype

    def __call__(self, x: Array) -> Array:
        return _asarray(_add_up(x if x.flags.c_contiguous else x.copy("C"), self.axes, self.dtype))

    def of_one(self, arrays: list[Array]) -> list[Array]:
        (x,) = arrays
        token = begin()
        try:
            return [_asarray(_add_up(x if x.flags.c_contiguous else x.copy("C"), self.axes, self.dtype))]
        finally:
            end(token)


def _extreme(ufunc: np.ufunc, axes: tuple[int, ...]) -> Callable[[Array], Array]:
    """The rule of `reduce_max` and `reduce_min` where there are elements."""
    reduce, asarray = ufunc.reduce, np.asarray
    return lambda x: asarray(reduce(x, axes))


def _as_array(call: Callable[..., Any]) -> Callable[..., Array]:
    """NumPy gives numbers, not arrays, where there are no dimensions."""

    def run(*operands: Array) -> Array:
        return np.asarray(call(*operands))

    return run


def _reshaped(shape: tuple[int, ...]) -> Callable[[Array], Array]:
    return lambda x: x.reshape(shape)


def _constant(e: Equation, known: dict[Var, Array]) -> Array:
    out = np.asarray(e.primitive.evaluate(*(known[v] for v in e.inputs), **e.attributes))
    out = out if out.base is None else out.copy()
    out.flags.writeable = False
    return out


# -- repeated axes ---------------------------------------------------------------------------------------


def _left_to_numpy(equations: Sequence[Equation], outputs: Sequence[Var]) -> dict[Var, tuple[int, ...]]:
    """Results of `broadcast` that only elementwise calls read, which see another operand in its whole shape:
    the shape, with ones for repeated axes, that means the same to NumPy.
    """
    views = {e.outputs[0]: _aligned(e) for e in equations if e.primitive.name == "broadcast"}
    for v in outputs:
        views.pop(v, None)
    for e in equations:
        if e.primitive.name not in _BROADCASTING or all(v in views for v in e.inputs):
            for v in e.inputs:
                views.pop(v, None)
    return views


def _aligned(e: Equation) -> tuple[int, ...]:
    """The operand's axes at their places from the right, without leading ones."""
    shape, axes = e.attributes["shape"], e.attributes["axes"]
    sizes = dict(zip(axes, e.inputs[0].type.shape, strict=True))
    full = [sizes.get(i, 1) for i in range(len(shape))]
    while full and full[0] == 1 and len(full) > len(axes):
        full.pop(0)
    return tuple(full)
