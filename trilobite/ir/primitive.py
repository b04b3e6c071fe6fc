"""A primitive is a name with its rules, and this is the form in which rules are written.

The rules of a primitive:
  type       `(*types, **attributes) -> TensorType` (or a tuple of them): checks and infers.
  evaluate   `(*arrays, **attributes) -> array` (or a tuple): the meaning, in NumPy.
  jvp, vjp   One small function per operand. Its parameters say what it needs: the first is the tangent or
             cotangent, then operands by name, `out`, `<operand>_type`, `out_type`; keyword-only ones are
             attributes. What no wanted rule names is not kept for the backward pass. A primitive with
             several outputs, or whose operands share work, states one whole function instead (`whole_jvp`,
             `whole_vjp`, `linearize`).
  derivative For pointwise functions: jvp and vjp in one, since a diagonal matrix is its own transpose.
  batch      `(size, values, mapped, attributes) -> value`: mapped operands, and all results, carry the batch
             in axis 0.
  cost       `(input types, output types, attributes) -> flops`; bytes follow from the types.
A primitive that lacks a rule holds `Absent(why)` in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Literal

from trilobite.base.dtypes import is_complex
from trilobite.base.errors import GradientError, IRError
from trilobite.base.locations import user_location
from trilobite.ir.types import TensorType, type_of

Value = Any  # an ndarray, or a value of an interpreter: has `.shape` and `.dtype`
Attributes = Mapping[str, Any]


class Absent:
    """A rule that a primitive does not have, and why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"Absent({self.why!r})"


class Partial:
    """The derivative rule of one operand, with what its parameters ask for."""

    __slots__ = ("attributes", "fn", "holomorphic", "inputs", "needs", "wants_out")

    def __init__(self, fn: Callable[..., Value], operands: Sequence[str], holomorphic: bool = False) -> None:
        code = fn.__code__
        names = code.co_varnames[1 : code.co_argcount]
        self.fn = fn
        self.attributes = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        self.needs = tuple(_need(n, operands) for n in names)
        self.inputs = frozenset(i for what, i in self.needs if what == "value")
        self.wants_out = any(what == "out" for what, _ in self.needs)
        # A pointwise derivative serving as vjp: complex cotangents meet its conjugate
        self.holomorphic = holomorphic

    def __call__(
        self, t: Value, inputs: Sequence[Value], types: Sequence[TensorType], out: Value, attrs: Attributes
    ) -> Value:
        args = [
            inputs[i]
            if what == "value"
            else types[i]
            if what == "type"
            else out
            if what == "out"
            else types[-1]
            for what, i in self.needs
        ]
        conjugate = self.holomorphic and is_complex(t.dtype)
        out = self.fn(table["conj"](t) if conjugate else t, *args, **{k: attrs[k] for k in self.attributes})
        return table["conj"](out) if conjugate else out


def _need(name: str, operands: Sequence[str]) -> tuple[Literal["value", "type", "out", "out_type"], int]:
    if name == "out":
        return "out", -1
    if name == "out_type":
        return "out_type", -1
    base = name.removesuffix("_type")
    if base not in operands:
        raise IRError(f"a derivative rule asks for {name!r}", expected=f"out, out_type or one of {operands}")
    return ("type" if base != name else "value"), operands.index(base)


PartialRule = Callable[..., Value] | None
Rule = Sequence[PartialRule] | Absent


class Primitive:
    """A name and its rules. All primitives stand in `table`."""

    def __init__(
        self,
        name: str,
        operands: str,
        *,
        type: Callable[..., Any],
        evaluate: Callable[..., Any],
        jvp: Rule | None = None,
        vjp: Rule | None = None,
        whole_jvp: Callable[..., Any] | None = None,
        whole_vjp: Callable[..., Any] | None = None,
        linearize: Callable[..., Any] | None = None,
        derivative: Rule | None = None,
        batch: Callable[..., Any] | Absent,
        cost: Callable[..., float],
        effect: bool = False,
        multiple: bool = False,
        keep: Literal["values", "types"] | tuple[int, ...] = "values",
        doc: str = "",
    ) -> None:
        self.name, self.operands, self.doc = name, operands.split(), doc
        self.type, self.evaluate, self.batch, self.cost = type, evaluate, batch, cost
        self.whole_jvp, self.whole_vjp, self.linearize = whole_jvp, whole_vjp, linearize
        self.effect, self.multiple = effect, multiple
        self.keep = keep  # what a whole vjp needs of its operands; a tuple: values of all but these
        self.jvp = self._partials(jvp if derivative is None else derivative)
        self.vjp = self._partials(
            vjp if derivative is None else derivative, holomorphic=derivative is not None
        )
        self.differentiable = not isinstance(self.vjp, Absent)
        self.eager: Callable[..., Any] | None = None  # what an upper room runs instead of `evaluate` at once
        self._plans: dict[int, tuple[tuple[int, ...], bool, bool]] = {}
        table.enter(self)

    def _partials(self, rule: Rule | None, holomorphic: bool = False) -> tuple[Partial | None, ...] | Absent:
        if rule is None:
            return ()
        if isinstance(rule, Absent):
            return rule
        return tuple(None if f is None else Partial(f, self.operands, holomorphic) for f in rule)

    def keeps(self, wanted: int) -> tuple[tuple[int, ...], bool, bool]:
        """For a bit mask of wanted operands: operands whose values the rules need, whether they need `out`,
        and types.
        """
        plan = self._plans.get(wanted)
        if plan is None:
            rules = [p for i, p in enumerate(self.partials("vjp")) if wanted >> i & 1]
            chosen = [p for p in rules if p is not None]
            inputs = sorted(set().union(*(p.inputs for p in chosen)) if chosen else ())
            types = None in rules or any(what in ("type", "out_type") for p in chosen for what, _ in p.needs)
            plan = self._plans[wanted] = (tuple(inputs), any(p.wants_out for p in chosen), types)
        return plan

    def partials(self, mode: Literal["jvp", "vjp"]) -> tuple[Partial | None, ...]:
        rule: tuple[Partial | None, ...] | Absent = getattr(self, mode)
        if isinstance(rule, Absent):
            raise GradientError(
                f"{self.name} has no derivative: {rule.why}",
                where=user_location(),
                expected="an operation that is differentiable in this direction",
                remedy="stop_gradient() or detach() what goes into it, or state a rule with tb.custom_vjp",
            )
        return rule

    def __call__(self, *values: Value, **attributes: Any) -> Any:
        return _enter(self, *values, **attributes)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def _enter(primitive: Primitive, *values: Value, **attributes: Any) -> Any:
    raise IRError("the transforms are not loaded")


def set_entry(bind: Callable[..., Any]) -> None:
    """Called once by the bind module, so that calling a primitive means binding it."""
    global _enter
    _enter = bind


class Table(dict[str, Primitive]):
    """Primitives by name. All names are known from the start; a family of primitives is imported when one of
    them is first asked for, since most programs meet few families and imports add up.
    """

    def __init__(self) -> None:
        super().__init__()
        self._modules: dict[str, str] = {}  # the one that defines it, by a primitive's name
        self._quicker: dict[str, Callable[[Primitive], Callable[..., Any]]] = {}

    def declare(self, module: str, names: Sequence[str]) -> None:
        """Importing the module will define these."""
        self._modules |= dict.fromkeys(names, module)

    def enter(self, primitive: Primitive) -> None:
        name = primitive.name
        if super().__contains__(name):
            raise IRError(f"there are two primitives named {name!r}")
        self[name] = primitive
        if name in self._quicker:
            primitive.eager = self._quicker[name](primitive)

    def quicken(self, name: str, make: Callable[[Primitive], Callable[..., Any]]) -> None:
        """From now on `make(primitive)` runs instead of its `evaluate` at once."""
        self._quicker[name] = make
        if super().__contains__(name):
            self[name].eager = make(self[name])

    def __missing__(self, name: str) -> Primitive:
        if name not in self._modules:
            raise KeyError(name)
        import_module(self._modules[name])
        found = super().get(name)
        if found is None:
            raise IRError(f"{self._modules[name]} does not define the primitive {name!r}, as the table says")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._modules or super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._modules, **dict.fromkeys(super().__iter__())})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    # dict's own would know only what has been imported; these go by the three above
    get = Mapping.get  # type: ignore[assignment]
    keys = Mapping.keys  # type: ignore[assignment]
    values = Mapping.values  # type: ignore[assignment]
    items = Mapping.items  # type: ignore[assignment]


table = Table()


def types_of(values: Sequence[Value]) -> list[TensorType]:
    return [type_of(v) for v in values]


_LATE = Absent("a target's passes make it, after derivatives and batching")
TargetPrimitive = partial(Primitive, jvp=_LATE, vjp=_LATE, batch=_LATE)
"""What only the passes of a target make."""


def result_types(
    primitive: Primitive, types: Sequence[TensorType], attributes: Attributes
) -> tuple[TensorType, ...]:
    """The output types as a tuple, whatever the number of results."""
    out = primitive.type(*types, **attributes)
    return tuple(out) if primitive.multiple else (out,)
