"""Whether a checkpoint fits what it is loaded into, and its values in that structure.

Enters: a decoded nest and an example (`like`). Leaves: every difference at once, or the values in the
example's own containers (namedtuples, dataclasses and registered classes included). Reads no array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trilobite.base.errors import StateError
from trilobite.framework.checkpoint.arrays import NAMES
from trilobite.framework.checkpoint.structure import Slot, container, is_array, place

_SEQUENCES = {"list", "tuple"}
_Path = tuple[Any, ...]


def check(found: Any, like: Any, where: str) -> None:
    """Raise a StateError that lists every place where the checkpoint and the example differ."""
    lines = list(_differences(found, like, ()))
    if not lines:
        return
    count = f"{len(lines)} difference" + ("s" if len(lines) > 1 else "")
    raise StateError(
        "\n".join(
            [
                f"the checkpoint does not fit what it is loaded into: {count}",
                *(f"    {line}" for line in lines),
            ]
        ),
        where=where,
        expected="the same names, shapes and dtypes",
        remedy="build the same model and optimiser, or load without like= and pick what you need",
    )


def _differences(found: Any, like: Any, path: _Path) -> Iterator[str]:
    want = container(like)
    have = None if type(found) is Slot else container(found)
    if want is None or have is None:
        yield from _leaf_differences(found, like, path)
        return
    if _family(want.kind) != _family(have.kind):
        yield f"{place(path)}: a {have.kind} in the checkpoint, a {want.kind} expected"
        return
    wanted, held = (
        dict(zip(want.keys, want.children, strict=True)),
        dict(zip(have.keys, have.children, strict=True)),
    )
    for key in wanted:
        if key in held:
            yield from _differences(held[key], wanted[key], (*path, key))
        else:
            yield f"{place((*path, key))}: not in the checkpoint, {describe(wanted[key])} expected"
    for key in held:
        if key not in wanted:
            yield f"{place((*path, key))}: {describe(held[key])} in the checkpoint, nothing expected"


def _family(kind: str) -> str:
    return kind if kind in _SEQUENCES else "dict"


def _leaf_differences(found: Any, like: Any, path: _Path) -> Iterator[str]:
    have, want = describe(found), describe(like)
    if have != want:
        yield f"{place(path)}: {have} in the checkpoint, {want} expected"


def describe(value: Any) -> str:
    """What a value is, as far as fitting goes."""
    if type(value) is Slot:
        return f"{value.dtype} {value.shape}"
    if is_array(value) or (hasattr(value, "shape") and hasattr(value, "dtype")):
        return _describe_array(value)
    nest = container(value)
    if nest is not None:
        return f"a {nest.kind} of {len(nest.children)}"
    return "None" if value is None else type(value).__name__


def _describe_array(value: Any) -> str:
    try:
        dtype = np.dtype(value.dtype).newbyteorder("=")
        return f"{NAMES.get(dtype, dtype.name)} {tuple(value.shape)}"
    except (AttributeError, TypeError):  # its dtype is no NumPy dtype, or it only offers __array__
        array = np.asarray(value)
        return f"{array.dtype.name} {array.shape}"


def rebuild(values: Any, like: Any) -> Any:
    """Loaded values in the containers of the example, which `check` has found to fit."""
    want = container(like)
    if want is None:
        return values
    return want.rebuild(
        [rebuild(values[key], child) for key, child in zip(want.keys, want.children, strict=True)]
    )
