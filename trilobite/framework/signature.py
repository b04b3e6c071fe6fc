"""What a call of a jitted function looks like: which leaves are inputs, which are part of the program.

Arguments are tensors (or arrays), Python numbers (traced, weakly typed), and static values: bools, strings,
None, and whatever static_argnums and static_argnames name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trilobite.base import dtypes, pytree
from trilobite.base.dtypes import DType
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.records import dataclass
from trilobite.framework.autocast import autocast_dtype
from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.ranks import transport
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.types import Affine, TensorType, type_of

NUMBERS = (int, float, complex)


@dataclass(frozen=True)
class Static:
    """A leaf that is part of the program, compared by equality."""

    value: Any


@dataclass(frozen=True)
class Dynamic:
    """A leaf that is an input: its type, whether it requires a gradient and how, and the kind of a Python
    number.
    """

    type: TensorType
    grad: str
    weak: Any = None

    def __str__(self) -> str:
        return f"{self.type}{' requiring a gradient' if self.grad else ''}"


class Held:
    """An argument that enters a recording as the very tensor it is, by its cell and view: one that shares
    memory with another that the function writes.
    """

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Held):
            return False
        return self.value._cell is other.value._cell and self.value._view == other.value._view

    def __hash__(self) -> int:
        return hash(self.value._cell)


@dataclass(frozen=True)
class Signature:
    """What decides whether a recording serves a call."""

    tree: pytree.Tree
    leaves: tuple[Any, ...]
    aliases: tuple[int, ...]
    grad_enabled: bool
    autocast: DType | None
    default_float: DType
    place: tuple[int, int]  # rank and size: what a function does may depend on them


@dataclass
class Call:
    """One call, taken apart."""

    signature: Signature
    tensors: list[Tensor]  # the dynamic leaves, in order


def take_apart(
    args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Sequence[int], names: Sequence[str], shapes: Any
) -> Call:
    """One call as a signature and the tensors it passes."""
    fixed = {n % len(args) for n in numbers if -len(args) <= n < len(args)}
    wrapped = tuple(Static(a) if i in fixed else a for i, a in enumerate(args))
    named = {k: Static(v) if k in names else v for k, v in kwargs.items()}
    leaves, tree = pytree.flatten((wrapped, named), _is_leaf)
    declared = _declared((wrapped, named), shapes)
    rows, tensors = [], []
    for i, leaf in enumerate(leaves):
        row, t = _classify(leaf, declared[i] if declared else None)
        rows.append(row)
        if t is not None:
            tensors.append(t)
    ctx = entry.context()
    grad_enabled = bool(ctx.ambient.level > ctx.grad_off)
    at = transport()
    modes = (grad_enabled, autocast_dtype(), dtypes.default_float, (at.rank, at.size))
    return Call(Signature(tree, tuple(rows), _aliases(tensors), *modes), tensors)


def _aliases(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Per tensor the first one on the same cell."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(t._cell), i) for i, t in enumerate(tensors))


def hold(call: Call, shared: Collection[Cell]) -> Call:
    """The same call with the tensors on these cells held instead of passed."""
    rows: list[Any] = []
    tensors: list[Tensor] = []
    given = iter(call.tensors)
    for row in call.signature.leaves:
        t = next(given) if isinstance(row, Dynamic) else None
        if t is not None and t._cell in shared:
            rows.append(Held(t))
        else:
            rows.append(row)
            tensors += [t] if t is not None else []
    return Call(replace(call.signature, leaves=tuple(rows), aliases=_aliases(tensors)), tensors)


def _declared(arguments: Any, shapes: Any) -> list[Any] | None:
    if shapes is None:
        return None
    if len(shapes) > len(arguments[0]):
        raise ArgumentError(
            f"shapes declares {len(shapes)} arguments for a call with {len(arguments[0])}",
            where=user_location(),
            expected="at most one entry per positional argument",
            remedy="pass by position what shapes declares, or declare less",
        )
    given = tuple(shapes) + (None,) * (len(arguments[0]) - len(shapes))
    out: list[Any] = []
    for declared, arg in zip(given, arguments[0], strict=True):
        out += [declared] * pytree.flatten(arg, _is_leaf)[1].size
    return out + [None] * pytree.flatten(arguments[1], _is_leaf)[1].size


def _is_leaf(x: Any) -> bool:
    return isinstance(x, (Tensor, Static))


def _classify(leaf: Any, declared: Any) -> tuple[Any, Tensor | None]:
    """A leaf of the arguments as a row of the signature, and the tensor that is passed for it."""
    weak = None
    if isinstance(leaf, np.ndarray) or (isinstance(leaf, NUMBERS) and not isinstance(leaf, bool)):
        weak = None if isinstance(leaf, np.ndarray) else type(leaf)
        wide = {int: np.int64, float: np.float64, complex: np.complex128}
        leaf = wrap(to_array(leaf) if weak is None else np.asarray(leaf, wide[weak]))
    if not isinstance(leaf, Tensor):
        row = leaf if isinstance(leaf, Static) else Static(leaf)
        try:
            hash(row)
        except TypeError:
            raise ArgumentError(
                f"a static argument of type {type(row.value).__name__} cannot be compared",
                where=user_location(),
                expected="something hashable",
                remedy="pass tensors, numbers, or a tuple instead of a list",
            ) from None
        return row, None
    if leaf._extra is not None and "weak" in leaf._extra:
        weak = leaf._extra["weak"]
    seen = type_of(leaf._read())
    kind = ("leaf" if leaf.is_leaf else "history") if leaf.requires_grad else ""
    if declared is not None:
        seen = TensorType(_symbolic(declared, seen.shape), seen.dtype)
    return Dynamic(seen, kind, weak), leaf


def _symbolic(declared: Sequence[Any], actual: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(declared, str) or len(declared) != len(actual):
        raise ArgumentError(
            f"shapes declares {declared if isinstance(declared, str) else tuple(declared)!r} for an argument "
            f"of shape {tuple(actual)}",
            where=user_location(),
            expected="as many dimensions",
            remedy="one entry per dimension: a tb.dim(...), a number, or None for as it is",
        )
    return tuple(a if d is None else _dimension(d, a) for d, a in zip(declared, actual, strict=True))


def _dimension(declared: Any, actual: Any) -> Any:
    """What is symbolic is looked at in each call; a number has to be what is there."""
    if isinstance(declared, Affine):
        return declared
    if isinstance(declared, bool) or not isinstance(declared, (int, np.integer)):
        raise ArgumentError(
            f"shapes declares {declared!r} as a dimension",
            where=user_location(),
            expected="a tb.dim(...), a number, or None for as it is",
            remedy=f"n = tb.dim({declared!r})" if isinstance(declared, str) and declared else None,
        )
    if declared != actual:
        raise ShapeError(
            f"shapes declares {declared} for a dimension of size {actual}",
            where=user_location(),
            expected="the size that the argument has",
            remedy="a tb.dim(...) where sizes change",
        )
    return actual


def describe(row: Any) -> str:
    if isinstance(row, Held):
        return "another tensor that shares memory with one that the function writes"
    return f"the static {row.value!r}" if isinstance(row, Static) else str(row)
