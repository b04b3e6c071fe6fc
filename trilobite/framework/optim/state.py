"""The state of an optimiser as plain data, and back.

Leaves: `{"state": [per parameter: arrays by name], "param_groups": [{"lr": 0.1, ..., "params":
places}]}`, copies throughout. Comes back only if all of it fits: names, shapes and dtypes are compared
before the first tensor changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.framework.optim.group import Group
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms import cells

Array = np.ndarray[Any, np.dtype[Any]]


def snapshot(t: Tensor) -> Array:
    """A tensor's array, copied."""
    return t.detach().numpy().copy()


def plain(value: Any) -> Array:
    """An array, whether it comes as one or as a tensor."""
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def write(t: Tensor, array: Array) -> None:
    """Give a state tensor an array of its own."""
    cells.write(t._cell, np.array(array))


def mismatch(owner: str, what: str, expected: Any) -> StateError:
    return StateError(
        f"the state does not fit {owner}: {what}",
        where=user_location(),
        expected=expected,
        remedy="make it with the same parameters and settings as the one whose state_dict() this is",
    )


def fitting(owner: str, name: str, found: Any, like: Tensor) -> Array:
    """An array of a saved state, if it is what the tensor holds."""
    array = plain(found)
    if array.shape != like.shape or array.dtype != like.dtype:
        was = f"{name} is {array.dtype}{list(array.shape)}"
        raise mismatch(owner, was, f"{like.dtype}{list(like.shape)}")
    return array


def names_fit(owner: str, what: str, found: Any, wanted: Sequence[str]) -> None:
    if not isinstance(found, Mapping) or set(found) != set(wanted):
        has = sorted(map(str, found)) if isinstance(found, Mapping) else type(found).__name__
        raise mismatch(owner, f"{what} has {has}", sorted(wanted))


def save_optimizer(groups: Sequence[Group], state: Mapping[Tensor, Mapping[str, Tensor]]) -> dict[str, Any]:
    place = {p: i for i, p in enumerate(p for g in groups for p in g["params"])}
    rows = []
    for g in groups:
        numbers = {name: t.item() for name, t in g.numbers().items()}
        rows.append({**numbers, **g.switches(), "params": [place[p] for p in g["params"]]})
    return {"state": [{k: snapshot(t) for k, t in state[p].items()} for p in place], "param_groups": rows}


def load_optimizer(
    owner: str,
    groups: Sequence[Group],
    state: Mapping[Tensor, Mapping[str, Tensor]],
    saved: Mapping[str, Any],
) -> None:
    names_fit(owner, "it", saved, ("state", "param_groups"))
    params = [p for g in groups for p in g["params"]]
    rows, kept = saved["param_groups"], saved["state"]
    if len(rows) != len(groups):
        raise mismatch(owner, f"it has {len(rows)} parameter groups", len(groups))
    if len(kept) != len(params):
        raise mismatch(owner, f"it is of {len(kept)} parameters", len(params))
    for i, (g, row) in enumerate(zip(groups, rows, strict=True)):
        _check_group(owner, i, g, row)
    arrays = []
    for i, (p, found) in enumerate(zip(params, kept, strict=True)):
        names_fit(owner, f"parameter {i}", found, list(state[p]))
        arrays += [
            (t, fitting(owner, f"{name} of parameter {i}", found[name], t)) for name, t in state[p].items()
        ]
    for t, array in arrays:
        write(t, array)
    for g, row in zip(groups, rows, strict=True):
        for name, value in row.items():
            if name not in g:
                g.add(name, value)
            elif g.has(name):
                g[name] = value


def _check_group(owner: str, i: int, g: Group, row: Any) -> None:
    missing = [k for k in g if k not in row and k != "initial_lr"]
    if missing:
        raise mismatch(owner, f"group {i} has no {missing[0]!r}", sorted(g))
    if len(row["params"]) != len(g["params"]):
        raise mismatch(owner, f"group {i} is of {len(row['params'])} parameters", len(g["params"]))
    for name, value in row.items():
        if name == "params":
            continue
        if name in g and not g.has(name):
            if value != g[name]:
                raise mismatch(owner, f"{name} of group {i} is {value!r}", repr(g[name]))
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise mismatch(owner, f"{name} of group {i} is {value!r}", "a number")


# -- optimisers that keep plain dicts ----------------------------------------------------------------------


def save_plain(groups: Sequence[Any], state: Mapping[Tensor, Any]) -> dict[str, Any]:
    """The state of an optimiser written for PyTorch, in PyTorch's form: parameters become their numbers."""
    place = {p: i for i, p in enumerate(p for g in groups for p in g["params"])}
    rows = []
    for g in groups:
        settings = {k: v for k, v in g.items() if k != "params"}
        rows.append({**settings, "params": [place[p] for p in g["params"]]})
    return {"state": {place[p]: dict(v) for p, v in state.items()}, "param_groups": rows}


def load_plain(groups: Sequence[Any], state: Any, saved: Mapping[str, Any]) -> None:
    params = [p for g in groups for p in g["params"]]
    rows = saved["param_groups"]
    ours, theirs = ([len(g["params"]) for g in part] for part in (groups, rows))
    if ours != theirs:
        raise mismatch("the optimiser", f"it has groups of {theirs}", ours)
    for g, row in zip(groups, rows, strict=True):
        g.update({k: v for k, v in row.items() if k != "params"})
    for at, values in saved["state"].items():
        state[params[int(at)]] = dict(values)
