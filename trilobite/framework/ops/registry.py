"""The operator table: every public operation once, as a function over values; functions, methods and pages derive from it.

An operation is written over values (arrays or traced ones) and calls others of its kind directly. `op` puts it into the
table and derives the public function over tensors: operands are read, results wrapped in new tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trilobite.framework.promotion import scalar_dtype
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

F = TypeVar("F", bound=Callable[..., Any])


class Operator(NamedTuple):
    """A row: the public function, where it stands, under which method names."""

    name: str
    public: Callable[..., Any]
    group: str
    methods: tuple[str, ...]


operators: dict[str, Operator] = {}


class Weak:
    """A traced Python scalar: like the number itself, it takes the dtype of what it meets."""

    __slots__ = ("kind", "value")

    def __init__(self, value: Value, kind: type) -> None:
        self.value, self.kind = value, kind


def register(name: str, public: Callable[..., Any], group: str, methods: Sequence[str]) -> None:
    if name in operators:
        raise ValueError(f"two operators named {name}")
    operators[name] = Operator(name, public, group, tuple(methods))


def op(group: str, *, name: str | None = None, methods: Sequence[str] | None = None) -> Callable[[F], F]:
    """Enter a function over values into the table. Its methods are its name unless said otherwise."""

    def enter(fn: F) -> F:
        label = name or fn.__name__.rstrip("_")
        register(label, lift(fn), group, (label,) if methods is None else methods)
        return fn

    return enter


def tensor_op(group: str, *, name: str | None = None, methods: Sequence[str] | None = None) -> Callable[[F], F]:
    """Enter a function that works on tensors themselves: views, in-place changes, state."""

    def enter(fn: F) -> F:
        label = name or fn.__name__.rstrip("_")
        register(label, fn, group, (label,) if methods is None else methods)
        return fn

    return enter


def lift(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function over tensors that a function over values means."""

    @wraps(fn)
    def public(*args: Any, **kwargs: Any) -> Any:
        values = [read(a) for a in args]
        named = {k: read(v) for k, v in kwargs.items()} if kwargs else kwargs
        return wrap_results(fn(*values, **named), [*values, *named.values()] if named else values)

    return public


def read(arg: Any) -> Any:
    """Operands as values: tensors are read, also inside lists and tuples; everything else passes."""
    if isinstance(arg, Tensor):
        extra = arg._extra
        if extra is not None and "weak" in extra:
            return table["cast"](arg._read(), dtype=scalar_dtype(extra["weak"]))
        return arg._read()
    if type(arg) in (list, tuple) and any(isinstance(a, (Tensor, list, tuple)) for a in arg):
        return type(arg)(read(a) for a in arg)
    return arg


def wrap_results(out: Any, operands: Sequence[Any]) -> Any:
    """Results as tensors. An array that shares memory with an operand is copied: a result is nobody's view."""
    if type(out) is np.ndarray:
        if out.base is not None or any(out is v for v in operands):
            out = _apart(out, operands)
        return wrap(out)
    if hasattr(out, "interpreter"):
        return wrap(out)
    if isinstance(out, tuple) and hasattr(out, "_fields"):
        return type(out)(*(wrap_results(o, operands) for o in out))
    if isinstance(out, (tuple, list)):
        return type(out)(wrap_results(o, operands) for o in out)
    return out


def _apart(out: np.ndarray[Any, Any], operands: Sequence[Any]) -> np.ndarray[Any, Any]:
    for v in operands:
        if isinstance(v, (list, tuple)):
            out = _apart(out, v)
        elif isinstance(v, np.ndarray) and (out is v or out.base is v or (v.base is not None and out.base is v.base)):
            return out.copy()
    return out
