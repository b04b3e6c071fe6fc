"""Composites: a named function over values that stays whole. softmax, layer_norm, attention, an optimiser's
update.

Run on arrays, a composite is its body. On a tape it is one node. In a recording it is one `call` equation
with the body as its region, which jvp, vjp and vmap keep under its name; a target claims it whole or inlines
it. A composite may state its own reverse rule, where the derived one would be slower or less accurate:
`forward(*values, **attrs) -> (results, residuals)`, `backward(residuals, cotangents, **attrs) -> cotangents
of operands`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import IRError
from trilobite.ir.graph import Graph, exact
from trilobite.ir.primitive import Value, table, types_of
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import Traced, deeper
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.tape import Leaf, Tape
from trilobite.ir.types import TensorType

composites: dict[str, Composite] = {}
Function = Callable[..., Any]


class Plainly:
    """How the functions of composites run on arrays: as they are, unless an upper room knows a quicker way
    (`Composite.way`).
    """

    def body(self, c: Composite, values: Sequence[Value], attrs: dict[str, Any]) -> Any:
        return c.body(*values, **attrs)

    def forward(self, c: Composite, values: Sequence[Value], attrs: dict[str, Any]) -> Any:
        assert c.forward is not None
        return c.forward(*values, **attrs)

    def backward(
        self, c: Composite, kept: Sequence[Value], cotangents: Sequence[Value], attrs: dict[str, Any]
    ) -> Any:
        assert c.backward is not None
        return c.backward(kept, cotangents, **attrs)


class Composite:
    """A named body over values. `results` says how many values it returns (None: exactly one, not in a
    tuple).
    """

    way: ClassVar[Plainly] = Plainly()

    def __init__(
        self, name: str, body: Function, forward: Function | None = None, backward: Function | None = None
    ) -> None:
        self.name, self.body, self.forward, self.backward = name, body, forward, backward
        self._graphs: dict[Hashable, tuple[dict[str, Any], bool]] = {}
        self.__doc__ = body.__doc__
        if name in composites:
            raise IRError(f"there are two composites named {name!r}")
        composites[name] = self

    def __call__(self, *values: Value, **attrs: Any) -> Any:
        ctx = entry.threads.context
        if ctx.recorder is not None:
            return self._call(values, attrs)
        top = _top(values)
        if top is None:
            return self.way.body(self, values, attrs)
        if isinstance(top, Tape):
            return self._taped(top, values, attrs)
        return self.body(*values, **attrs) if self.forward is None else self._call(values, attrs)

    def _taped(self, tape: Tape, values: Sequence[Value], attrs: dict[str, Any]) -> Any:
        single: list[bool] = []

        def linearize(operands: Sequence[Value]) -> Any:
            if self.forward is not None:
                return _own(self, operands, attrs, single)
            return subtape(lambda *v: _listed(self.body(*v, **attrs), single), operands)

        outs = tape.opaque(self.name, linearize, values)
        return outs[0] if single[0] else tuple(outs)

    def _call(self, values: Sequence[Value], attrs: dict[str, Any]) -> Any:
        types = types_of(values)
        key = (tuple(types), exact(tuple(sorted(attrs.items()))))  # 0.0 is not -0.0, nor 1 True
        if key not in self._graphs:
            self._record(key, types, attrs)
        regions, single = self._graphs[key]
        options = {"options": tuple(sorted(attrs.items()))} if attrs else {}
        outs = table["call"](*values, name=self.name, **regions, **options)
        return outs[0] if single else outs

    def _record(self, key: Hashable, types: Sequence[TensorType], attrs: dict[str, Any]) -> None:
        """The body first: a rule may call the composite itself, and then means its body."""
        single: list[bool] = []
        graph = record_graph(lambda *v: _listed(self.body(*v, **attrs), single), types, self.name)
        self._graphs[key] = {"graph": graph}, single[0]
        slopes = any(is_inexact(t.dtype) for t in graph.output_types)
        if slopes and self.forward is not None and self.backward is not None:
            rules = rule_graphs(self, types, attrs, graph)
            self._graphs[key] = {"graph": graph, **rules}, single[0]


def rule_graphs(
    c: Composite, types: Sequence[TensorType], attrs: dict[str, Any], body: Graph
) -> dict[str, Graph]:
    """The forward and backward regions of a composite that states its own rule."""
    forward_fn, backward_fn = c.forward, c.backward
    assert forward_fn is not None and backward_fn is not None

    def forward(*values: Value) -> list[Value]:
        outs, residuals = forward_fn(*values, **attrs)
        return [*_listed(outs, []), *residuals]

    fwd = record_graph(forward, types, f"{c.name}.fwd")
    residual_types = fwd.output_types[len(body.outputs) :]
    ct_types = [t for t in body.output_types if is_inexact(t.dtype)]

    def back(*values: Value) -> list[Value]:
        n = len(residual_types)
        cts = backward_fn(values[:n], values[n:], **attrs)
        return [ct for ct, t in zip(cts, types, strict=True) if is_inexact(t.dtype)]

    return {"forward": fwd, "backward": record_graph(back, [*residual_types, *ct_types], f"{c.name}.bwd")}


def _own(c: Composite, operands: Sequence[Value], attrs: dict[str, Any], single: list[bool]) -> Any:
    outs, residuals = c.way.forward(c, operands, attrs)
    listed = _listed(outs, single)

    def pullback(cotangents: Sequence[Value]) -> Any:
        return c.way.backward(c, residuals, [ct for ct in cotangents if ct is not None], attrs)

    return listed, pullback


def _listed(outs: Any, single: list[bool]) -> list[Value]:
    single[:] = [not isinstance(outs, (tuple, list))]
    return [outs] if single[0] else list(outs)


def _top(values: Sequence[Value]) -> Any:
    top, level = None, 0
    for v in values:
        if isinstance(v, Traced) and v.interpreter.level > level:
            top, level = v.interpreter, v.interpreter.level
    return top


def subtape(fn: Callable[..., Sequence[Value]], operands: Sequence[Value]) -> tuple[list[Value], Any]:
    """Run `fn` on a tape of its own; returns its results and their pullback."""
    with deeper(entry.context()) as level:
        tape = Tape(level)
        leaves = [Leaf() if is_inexact(v.dtype) else None for v in operands]
        taped = [v if leaf is None else tape.wrap(v, leaf) for v, leaf in zip(operands, leaves, strict=True)]
        outs = list(fn(*taped))
        tape.alive = False

    def pullback(cotangents: Sequence[Value]) -> list[Any]:
        roots = [(o, ct) for o, ct in zip(outs, cotangents, strict=True) if ct is not None and tape.tracks(o)]
        found = backward(tape, roots, retain=True)
        return [None if leaf is None else found.get(leaf) for leaf in leaves]

    return [tape.strip(o) for o in outs], pullback


def composite(
    name: str, forward: Callable[..., Any] | None = None, backward: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Composite]:
    """Make a function over values a composite of that name."""
    return lambda body: Composite(name, body, forward, backward)
