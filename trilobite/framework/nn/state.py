"""The state of a module by names, and back. Loading checks everything before it changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.creation import to_array
from trilobite.framework.ops.meeting import astype
from trilobite.framework.tensor import Tensor
from trilobite.framework.writing import copied
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import cells

if TYPE_CHECKING:
    from trilobite.framework.nn.module import Module

_RANK = ("bool", "int", "float", "complex")


class LoadResult(NamedTuple):
    """What `load_state_dict(strict=False)` passed over."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def entries(module: Module, prefix: str = "") -> dict[str, Tensor]:
    """Every saved tensor under every name it has: parameters, then buffers, then children."""
    found: dict[str, Tensor] = {}
    for kind in ("parameter", "buffer"):
        found.update((prefix + name, t) for name, t in module._own(kind))
    for name, child in module._own("module"):
        found.update(entries(child, f"{prefix}{name}."))
    return found


def save_state(module: Module, prefix: str, keep_vars: bool) -> dict[str, Tensor]:
    parts = [(f"{prefix}{path}." if path else prefix, part) for path, part in module.named_modules()]
    for at, part in parts:
        for row in part.__dict__.get("_save_pre_hooks", ()):
            row.fn(part, at, keep_vars)
    found = {name: t if keep_vars else t.detach() for name, t in entries(module, prefix).items()}
    for at, part in sorted(parts, key=lambda p: -p[0].count(".")):  # those within before those around them
        for row in part.__dict__.get("_save_hooks", ()):
            changed = row.fn(part, found, at, {})
            found = found if changed is None else changed
    return found


def load_state(module: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> LoadResult:
    if not isinstance(state, Mapping):
        raise ArgumentError(
            f"load_state_dict of {type(state).__name__}",
            where=user_location(),
            expected="a mapping from names to tensors",
            remedy="pass what state_dict() or tb.load returned",
        )
    state = upgraded(module, dict(state), strict)
    own = entries(module)
    missing, unexpected = [n for n in own if n not in state], [n for n in state if n not in own]
    for _, part in module.named_modules():
        for row in part.__dict__.get("_loaded_hooks", ()):
            row.fn(part, LoadResult(missing, unexpected))
    given = {name: _value(name, state[name]) for name in own if name in state}
    wrong = {name: why for name, v in given.items() if (why := _misfit(own[name], v, assign))}
    if wrong or (strict and (missing or unexpected)):
        raise _refusal(module, missing if strict else [], unexpected if strict else [], wrong)
    ready = {name: copied(v) if assign else astype(v, own[name]._peek().dtype) for name, v in given.items()}
    with no_grad():
        for name, value in ready.items():
            _set(own[name], value, assign)
    return LoadResult(missing, unexpected)


def upgraded(module: Module, state: dict[str, Any], strict: bool) -> dict[str, Any]:
    """The state after every module had its say: hooks, and `_load_from_state_dict` where a class has one."""
    for path, part in list(module.named_modules()):
        prefix = f"{path}." if path else ""
        for hook, with_module in part.__dict__.get("_load_hooks", ()):
            rest: tuple[Any, ...] = (state, prefix, {}, strict, [], [], [])
            hook(part, *rest) if with_module else hook(*rest)
        part._load_from_state_dict(state, prefix, {}, strict, [], [], [])
    return state


def _value(name: str, x: Any) -> Value:
    if isinstance(x, Tensor):
        return x.detach()._read()
    if isinstance(x, (np.ndarray, np.generic, int, float, complex)):
        return to_array(x)
    raise ArgumentError(
        f"the state {name!r} is {type(x).__name__}", where=user_location(), expected="a tensor or an array"
    )


def _misfit(own: Tensor, value: Value, assign: bool) -> str:
    """Why a value cannot be taken, or nothing."""
    if value.shape != own.shape:
        return f"shape {tuple(value.shape)} instead of {tuple(own.shape)}"
    have, want = dt.kind(value.dtype), dt.kind(own.dtype)
    if _RANK.index(have) > _RANK.index(want) or (assign and have != want):
        return f"{value.dtype} instead of {own.dtype}"
    return ""


def _set(own: Tensor, value: Value, assign: bool) -> None:
    """Write into the tensor; with `assign` the tensor takes the value's dtype, too."""
    if assign and own._view is None:
        cells.write(own._cell, value)
    else:
        own._store(value)


def _refusal(module: Module, missing: list[str], unexpected: list[str], wrong: dict[str, str]) -> StateError:
    lines = [f"the state dict does not fit {type(module).__name__}; nothing was changed"]
    lines += [f"  missing: {', '.join(missing)}"] if missing else []
    lines += [f"  unexpected: {', '.join(unexpected)}"] if unexpected else []
    lines += [f"  {name}: {why}" for name, why in wrong.items()]
    return StateError(
        "\n".join(lines),
        where=user_location(),
        expected="every name of the module's state_dict(), with its shape and kind of dtype",
        remedy="load_state_dict(..., strict=False) passes over missing and unexpected names"
        if missing or unexpected
        else "load the state of a module made with the same arguments",
    )
