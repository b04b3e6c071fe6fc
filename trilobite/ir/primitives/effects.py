"""Primitives that reach outside of the graph: `print`, `callback` into Python, `custom_call` of a named
routine.

`print` and `callback` have effects: they stay where they stand, in order, and run once per run of the graph.
A custom call is a pure routine that is known by name, so that a graph which uses it can be written down and
read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, IRError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import quiet
from trilobite.base.records import dataclass
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import free
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Affine, Dim, TensorType

# -- print --------------------------------------------------------------------------------------------------


def _print(*values: Value, fmt: str) -> tuple[()]:
    print(fmt.format(*values))
    return ()


def _print_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> tuple[()]:
    """One line per element of the batch, in order; of a batch whose size only the run knows, one line for
    all.
    """
    if isinstance(size, Affine):
        return print_(*values, **attrs)  # type: ignore[no-any-return]
    for i in range(size):
        print_(*(_element(v, i) if m else v for v, m in zip(values, mapped, strict=True)), **attrs)
    return ()


def _element(v: Value, i: int) -> Value:
    start = (i, *(0 for _ in v.shape[1:]))
    one = table["slice"](v, start=start, stop=(i + 1, *v.shape[1:]), step=(1,) * v.ndim)
    return table["reshape"](one, shape=v.shape[1:])


def _print_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes
) -> tuple[tuple[()], tuple[()]]:
    return print_(*primals, **attrs), ()


print_: Primitive = Primitive(
    "print", "x", type=lambda *types, fmt: (), evaluate=_print, whole_jvp=_print_jvp,
    whole_vjp=lambda cts, inputs, outs, wanted, attrs: [None] * len(inputs), keep="types",
    batch=_print_batch, cost=free, effect=True, multiple=True,
    doc="fmt.format(*values) on a line of standard output",
)  # fmt: skip

# -- callback -----------------------------------------------------------------------------------------------


def _callback_type(
    *types: TensorType, fn: Callable[..., Any], results: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    if not callable(fn):
        raise ArgumentError(f"a callback into {fn!r}", where=user_location(), expected="a function of arrays")
    return results


def _callback(*values: Value, fn: Callable[..., Any], results: tuple[TensorType, ...]) -> tuple[Value, ...]:
    return _checked(_name(fn), fn(*values), results)


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", repr(fn))


def _checked(name: str, found: Any, results: Sequence[TensorType]) -> tuple[Value, ...]:
    """What a Python function returned, as arrays of the promised types."""
    listed = list(found) if isinstance(found, (tuple, list)) else [] if found is None else [found]
    if len(listed) != len(results):
        raise ArgumentError(
            f"{name} returned {len(listed)} values",
            where=user_location(),
            expected=f"{len(results)}: {list(results)}",
        )
    outs = []
    for i, (v, t) in enumerate(zip(listed, results, strict=True)):
        array = np.asarray(v)
        if array.shape != t.shape or array.dtype != t.dtype:
            raise ShapeError(
                f"result {i} of {name} is {array.dtype}{list(array.shape)}", where=user_location(), expected=t
            )
        outs.append(array)
    return tuple(outs)


def row_by_row(
    call: Callable[..., Sequence[Value]], results: Sequence[TensorType], size: Dim, values: Sequence[Value],
    mapped: Sequence[bool],
) -> tuple[Value, ...]:  # fmt: skip
    """One call per element of the batch, in order; its results one upon the other."""
    if isinstance(size, Affine):
        raise IRError(f"a callback under vmap needs a batch of fixed size, not {size}", where=user_location())
    full = all_mapped(size, values, mapped)
    rows = [call(*(_element(v, i) for v in full)) for i in range(size)]
    outs = []
    for k, t in enumerate(results):
        if not rows:
            outs.append(table["full"](shape=(0, *t.shape), dtype=t.dtype, value=0))
            continue
        outs.append(
            table["concatenate"](*(table["reshape"](r[k], shape=(1, *t.shape)) for r in rows), axis=0)
        )
    return tuple(outs)


def _callback_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> tuple[Value, ...]:
    return row_by_row(lambda *row: callback(*row, **attrs), attrs["results"], size, values, mapped)


_HOST = Absent(
    "Python code outside of the graph cannot be differentiated; wrap it with custom_vjp or custom_jvp"
)
callback: Primitive = Primitive(
    "callback", "x", type=_callback_type, evaluate=_callback, jvp=_HOST, vjp=_HOST, batch=_callback_batch,
    cost=free,
    effect=True, multiple=True, doc="fn(*arrays) in Python; it returns arrays of the types in `results`",
)  # fmt: skip

# -- custom call --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Routine:
    """A routine that graphs call by name. Rules take the routine's configuration as the keyword `config`.

    type(*types, config) -> types; evaluate(*arrays, config) -> arrays; and where they make sense
    jvp(primals, tangents, config) -> (outs, tangents), vjp(cotangents, operands, outs, config) -> cotangents,
    batch(size, values, mapped, config) -> values, cost(input types, output types, config) -> flops.
    """

    name: str
    type: Callable[..., Sequence[TensorType]]
    evaluate: Callable[..., Sequence[Any]]
    jvp: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    cost: Callable[..., float] | None = None


routines: dict[str, Routine] = {}


def register_routine(routine: Routine) -> Routine:
    """Make a routine known to custom_call."""
    if routine.name in routines:
        raise ArgumentError(f"there are two routines named {routine.name!r}", where=user_location())
    routines[routine.name] = routine
    return routine


def _routine(name: str) -> Routine:
    if name not in routines:
        known = ", ".join(sorted(routines)) or "none so far"
        raise IRError(
            f"custom_call of {name!r}, which is not registered", where=user_location(),
            expected=f"one of: {known}",
            remedy="import the module that registers it first",
        )  # fmt: skip
    return routines[name]


def _rule(name: str, which: str) -> Callable[..., Any]:
    rule = getattr(_routine(name), which)
    if rule is None:
        raise IRError(
            f"the routine {name!r} states no {which} rule",
            where=user_location(),
            remedy=f"give Routine(..., {which}=...)",
        )
    found: Callable[..., Any] = rule
    return found


def _custom_type(*types: TensorType, name: str, config: tuple[Any, ...] = ()) -> tuple[TensorType, ...]:
    return tuple(_routine(name).type(*types, config=config))


def _custom(*values: Value, name: str, config: tuple[Any, ...] = ()) -> tuple[Value, ...]:
    types = _custom_type(*(TensorType(v.shape, v.dtype) for v in values), name=name, config=config)
    return _checked(name, _routine(name).evaluate(*values, config=config), types)


def _custom_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    pair: tuple[Any, Any] = _rule(attrs["name"], "jvp")(primals, tangents, config=attrs.get("config", ()))
    return pair


def _custom_vjp(
    cts: Sequence[Any],
    inputs: Sequence[Value],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> Sequence[Any]:
    found: Sequence[Any] = _rule(attrs["name"], "vjp")(cts, inputs, outs, config=attrs.get("config", ()))
    return found


def _custom_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> tuple[Value, ...]:
    return tuple(_rule(attrs["name"], "batch")(size, values, mapped, config=attrs.get("config", ())))


def _custom_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attributes) -> float:
    rule = _routine(attrs["name"]).cost
    return 0.0 if rule is None else rule(inputs, outputs, config=attrs.get("config", ()))


custom_call: Primitive = Primitive(
    "custom_call", "x", type=_custom_type, evaluate=quiet(_custom), whole_jvp=_custom_jvp,
    whole_vjp=_custom_vjp,
    batch=_custom_batch, cost=_custom_cost, multiple=True, doc="a registered routine, by name",
)  # fmt: skip
