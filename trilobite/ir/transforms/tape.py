"""Reverse mode: a tape over any values. `backward()`, `grad` and backward inside `jit` are this tape at
different levels.

A taped value points to the node that made it; nodes point to the nodes of their operands. There is no list to
keep: what nobody can reach any more is freed by itself. The way back over the nodes is in backward.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from trilobite.base.dtypes import INEXACT, is_inexact
from trilobite.base.errors import GradientError
from trilobite.base.locations import UNKNOWN, Location, module_now, user_location
from trilobite.ir.primitive import Attributes, Primitive, Value, table, types_of
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.bind import Interpreter, Traced, bind
from trilobite.ir.types import TensorType, type_of

_sequence = itertools.count()
_make = object.__new__
Pullback = Callable[[Sequence[Value]], Sequence[Any]]


class Zero:
    """A cotangent of zeros: of an operand in which an operation is flat."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type


class Taped(Traced):
    """A value that a tape follows: the value itself, and which output of which node it is."""

    __slots__ = ("index", "node", "primal")
    interpreter: Tape

    def __init__(self, tape: Tape, primal: Value, node: Node, index: int = 0) -> None:
        self.interpreter = tape
        self.primal, self.node, self.index = primal, node, index
        self.shape, self.dtype = primal.shape, primal.dtype


def taped(tape: Tape, primal: Value, node: Node, index: int = 0) -> Taped:
    """`Taped(...)` at two thirds of its time: every recorded operation makes some."""
    out = _make(Taped)
    out.interpreter, out.primal, out.node, out.index = tape, primal, node, index
    out.shape, out.dtype = primal.shape, primal.dtype
    return out


class Node:
    """Where a taped value came from. Subclasses say how cotangents of its outputs become those of its
    operands.
    """

    __slots__ = ("edges", "freed", "hooks", "location", "module", "name", "order", "time", "types")

    def __init__(self, name: str, edges: Sequence[tuple[Node, int] | None]) -> None:
        self.name, self.edges = name, edges
        self.order = next(_sequence)
        self.time = cells.now
        self.freed = False
        self.hooks: dict[int, list[Callable[[Value], Any]]] | None = None
        self.types: Sequence[TensorType] | None = None
        context = entry.threads.context
        self.location: Location = UNKNOWN if context.watch is None else user_location()
        self.module = "" if context.recorder is None else module_now()  # whose call the way back belongs to

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        """Cotangents of the operands. `again`: keep the result differentiable on the same tape."""
        raise NotImplementedError

    def free(self) -> None:
        self.freed = True

    def outputs(self) -> int:
        return 1

    def check_kept(self, kept: Sequence[Value]) -> None:
        for value in kept:
            if value is not None and cells.stamped_after(value, self.time, checked=True):
                raise GradientError(
                    f"a tensor that the gradient of {self.name} needs was changed in place",
                    where=self.location if self.location is not UNKNOWN else user_location(),
                    expected="values kept for the backward pass stay as they were in the forward pass",
                    remedy="write `x = x + 1` instead of `x += 1`, or clone() the tensor before changing it",
                )


def moment() -> int:
    """Nodes that are made from now on have a higher order."""
    return next(_sequence)


def excuse(node: Node, since: int) -> None:
    """The result of an operation that began at `since` was just written over its own operand. On a tape a
    write makes a new value, so what the operation kept of the old one is as it was: its nodes need not
    fear that write.
    """
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.order > since and at.time != cells.now:
            at.time = cells.now
            waiting += [edge[0] for edge in at.edges if edge is not None]


class Leaf(Node):
    """Where differentiation ends: an argument of `grad`, or a tensor that requires a gradient."""

    __slots__ = ("receive",)

    def __init__(self, receive: Callable[[Value], None] | None = None) -> None:
        super().__init__("leaf", ())
        self.receive = receive


class Boundary(Node):
    """An input of a recorded function with a history outside, which backward inside cannot follow."""

    __slots__ = ()

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        raise GradientError(
            "backward() inside a recorded function would have to leave it",
            where=user_location(),
            expected="gradients of tensors that are leaves, or made inside the function",
            remedy="call backward() outside, or pass x.detach().requires_grad_()",
        )


class Refusal(Node):
    """A primitive without a derivative: harmless until a backward pass arrives here."""

    __slots__ = ("primitive",)

    def __init__(
        self,
        primitive: Primitive,
        attributes: Attributes,
        values: Sequence[Value],
        edges: list[Any],
        wanted: int,
        out: Value,
    ) -> None:
        super().__init__(primitive.name, edges)
        self.primitive = primitive

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        self.primitive.partials("vjp")
        return ()


class PrimitiveNode(Node):
    """One application of a primitive with per-operand rules (or one whole rule)."""

    __slots__ = ("attributes", "inputs", "out", "primitive", "wanted")

    def __init__(
        self,
        primitive: Primitive,
        attributes: Attributes,
        values: Sequence[Value],
        edges: list[Any],
        wanted: int,
        out: Value,
    ) -> None:
        # as Node.__init__, without the call
        self.name, self.edges, self.order, self.time = primitive.name, edges, next(_sequence), cells.now
        self.freed, self.hooks, self.types = False, None, None
        context = entry.threads.context
        self.location = UNKNOWN if context.watch is None else user_location()
        self.module = "" if context.recorder is None else module_now()
        self.primitive, self.attributes, self.wanted = primitive, attributes, wanted
        self.inputs: Any
        self.out: Any
        if primitive.whole_vjp is not None:
            self.inputs = _kept(values, primitive.keep)
            self.out = out if primitive.multiple or primitive.keep == "values" else type_of(out)
            return
        keep, wants_out, wants_types = primitive.keeps(wanted)
        if len(keep) == len(values):
            self.inputs = values
        else:
            self.inputs = [v if i in keep else None for i, v in enumerate(values)] if keep else ()
        self.out = out if wants_out else None
        if wants_types:
            self.types = [*types_of(values), type_of(out)]

    def outputs(self) -> int:
        return len(self.out) if self.primitive.multiple and self.out is not None else 1

    def free(self) -> None:
        self.freed, self.inputs, self.out = True, (), None

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        outs = self.out if self.primitive.multiple else (self.out,)
        self.check_kept([*self.inputs, *outs])
        inputs = self.inputs if again else [tape.strip(v) for v in self.inputs]
        if again:
            inputs = [self._on(tape, i, v) for i, v in enumerate(inputs)]
            outs = [None if o is None else tape.wrap(o, self, i) for i, o in enumerate(outs)]
        wanted = [bool(self.wanted >> i & 1) for i in range(len(self.edges))]
        if self.primitive.whole_vjp is not None:
            result: Sequence[Any] = self.primitive.whole_vjp(
                cotangents, inputs, outs, wanted, self.attributes
            )
            return result
        rules = self.primitive.partials("vjp")
        types = self.types or ()
        found: list[Any] = []
        for i, (rule, want) in enumerate(zip(rules, wanted, strict=True)):
            ct = rule(cotangents[0], inputs, types, outs[0], self.attributes) if want and rule else None
            if want and ct is None:  # flat in this operand
                ct = Zero(types[i] if types else type_of(cotangents[0]))
            found.append(ct)
        return found

    def _on(self, tape: Tape, i: int, value: Any) -> Any:
        """A kept operand as the tape knows it: `over_arrays` keeps arrays."""
        edge = self.edges[i]
        return value if edge is None or type(value) is not ndarray else tape.wrap(value, *edge)


def _kept(values: Sequence[Value], keep: str | tuple[int, ...]) -> tuple[Any, ...]:
    """What a whole rule gets to see: values, types, or types of those listed and values of the others."""
    if isinstance(keep, str):
        return tuple(values if keep == "values" else types_of(values))
    return tuple(type_of(v) if i in keep else v for i, v in enumerate(values))


class PullbackNode(Node):
    """A region, composite or custom rule: the pullback was made with the forward pass.

    To be differentiable again it is made afresh from the taped operands.
    """

    __slots__ = ("count", "inputs", "linearize", "pullback")

    def __init__(
        self,
        name: str,
        linearize: Callable[[Sequence[Value]], tuple[Sequence[Value], Pullback]],
        values: Sequence[Value],
        edges: list[Any],
        pullback: Pullback,
        outs: Sequence[Value],
    ) -> None:
        super().__init__(name, edges)
        self.linearize, self.inputs, self.pullback = linearize, tuple(values), pullback
        self.count, self.types = len(outs), types_of(outs)

    def outputs(self) -> int:
        return self.count

    def free(self) -> None:
        self.freed, self.inputs = True, ()
        self.linearize = self.pullback = None  # type: ignore[assignment]

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        # going forward again takes the operands; else what the rule itself kept, where it says so
        self.check_kept(self.inputs if again else getattr(self.pullback, "kept", self.inputs))
        full = [
            zeros(t) if ct is None and is_inexact(t.dtype) else ct
            for ct, t in zip(cotangents, self.types or (), strict=True)
        ]
        pullback = self.linearize(self.inputs)[1] if again else self.pullback
        return pullback(full)


class Tape(Interpreter):
    """Processes primitives on taped values: computes on what is underneath and leaves a node behind."""

    __slots__ = ("ambient", "paused")

    def __init__(self, level: int, ambient: bool = False) -> None:
        super().__init__(level)
        self.ambient = ambient  # the one that backward() walks; others belong to grad and vjp
        # While one node's forward part runs: what it reads besides its operands is constant
        self.paused = False

    def records(self) -> bool:
        return self.level > entry.context().grad_off

    def wrap(self, value: Value, node: Node, index: int = 0) -> Taped:
        return Taped(self, value, node, index)

    def strip(self, value: Value) -> Value:
        return value.primal if type(value) is Taped and value.interpreter is self else value

    def tracks(self, value: Value) -> bool:
        """Is the value still connected on this tape?"""
        return type(value) is Taped and value.interpreter is self and not value.node.freed

    def process(self, primitive: Primitive, values: Sequence[Value], attributes: Attributes) -> Any:
        if not self.alive:
            self.check_alive("grad or vjp")
        primals, edges, wanted = self._open(values)
        if self.level <= entry.threads.context.grad_off or self.paused or primitive.name == "stop_gradient":
            return bind(primitive, *primals, **attributes)
        if primitive.linearize is not None:
            return self._linearize(primitive, values, primals, edges, wanted, attributes)
        out = bind(primitive, *primals, **attributes)
        if not primitive.multiple:
            if out.dtype not in INEXACT:
                return out
            make = PrimitiveNode if primitive.differentiable else Refusal
            return taped(self, out, make(primitive, attributes, values, edges, wanted, out))
        if not any(is_inexact(o.dtype) for o in out):
            return out
        make = PrimitiveNode if primitive.differentiable else Refusal
        node = make(primitive, attributes, values, edges, wanted, out)
        return tuple(Taped(self, o, node, i) if is_inexact(o.dtype) else o for i, o in enumerate(out))

    def over_arrays(self, primitive: Primitive, arrays: list[Any], edges: list[Any], wanted: int) -> Value:
        """`process` for an elementwise primitive, given the arrays and nodes that its operands consist of."""
        out = primitive.evaluate(*arrays)
        if out.dtype not in INEXACT:
            return out
        make = PrimitiveNode if primitive.differentiable else Refusal
        return taped(self, out, make(primitive, {}, arrays, edges, wanted, out))

    def _open(self, values: Sequence[Value]) -> tuple[list[Value], list[tuple[Node, int] | None], int]:
        """Operands without this tape, where each came from, and a bit mask of those that did."""
        primals: list[Value] = []
        edges: list[tuple[Node, int] | None] = []
        wanted, bit = 0, 1
        for v in values:
            if type(v) is Taped and v.interpreter is self:
                primals.append(v.primal)
                edges.append((v.node, v.index))
                wanted |= bit
            else:
                primals.append(v)
                edges.append(None)
            bit += bit
        return primals, edges, wanted

    def _linearize(
        self,
        primitive: Primitive,
        values: Sequence[Value],
        primals: list[Value],
        edges: list[Any],
        wanted: int,
        attributes: Any,
    ) -> Any:
        flags = [bool(wanted >> i & 1) for i in range(len(values))]

        def linearize(operands: Sequence[Value]) -> Any:
            assert primitive.linearize is not None
            return primitive.linearize(operands, flags, attributes)

        outs = self.opaque(primitive.name, linearize, values, primals, edges)
        detached = attributes.get("tracked") if self.ambient else None
        if detached is not None:  # outputs whose own tape the function has already consumed
            outs = [o if keep else self.strip(o) for o, keep in zip(outs, detached, strict=True)]
        return tuple(outs) if primitive.multiple else outs[0]

    def opaque(
        self,
        name: str,
        linearize: Callable[[Sequence[Value]], tuple[Sequence[Value], Pullback]],
        values: Sequence[Value],
        primals: Sequence[Value] | None = None,
        edges: list[Any] | None = None,
    ) -> list[Value]:
        """One node for a whole computation: `linearize(operands) -> (results, pullback)`."""
        if primals is None or edges is None:
            primals, edges, _ = self._open(values)
        if not self.records():
            return list(linearize(primals)[0])
        self.paused = True
        try:
            outs, pullback = linearize(primals)
        finally:
            self.paused = False
        outs = [self.strip(o) for o in outs]
        node = PullbackNode(name, linearize, values, edges, pullback, outs)
        return [Taped(self, o, node, i) if is_inexact(o.dtype) else o for i, o in enumerate(outs)]


def zeros(type: TensorType) -> Value:
    """A cotangent of zeros."""
    return bind(table["full"], shape=type.shape, dtype=type.dtype, value=0.0)


def add(a: Value, b: Value) -> Value:
    return bind(table["add"], a, b)


next_order: Callable[[], int] = _sequence.__next__
"""Nodes made from now on have at least this order."""


entry.install_ambient(Tape(1, ambient=True))
