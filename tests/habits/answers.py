"""PyTorch's answers, kept: what its operations give for its own samples, without PyTorch.

Enters (`python -m tests.habits.answers`, in the peers' environment): PyTorch's table of samples. Leaves
`answers.npz`: for each operation some small samples, their results, and the gradients for the cotangents of
`cotangent`. Only what agreed on that day is kept; what means something else here has a list with reasons in
`test_peer_sweep.py`. Inputs are multiples of 1/128, so that the file is small.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb

Array = np.ndarray[Any, Any]
KEPT = Path(__file__).with_name("answers.npz")
PROGRAMS_KEPT = Path(__file__).with_name("programs.npz")
GRID = 128.0
LARGEST = 120  # elements of one sample's operands and results
TOLERANCE = 2e-5


def cotangent(shape: tuple[int, ...]) -> Array:
    return np.cos(np.arange(int(np.prod(shape, dtype=int)), dtype=float)).reshape(shape)


class Store:
    """Structures of arrays as JSON; the numbers stand in one array of float32."""

    def __init__(self, numbers: Array | None = None) -> None:
        self.numbers = numbers
        self.parts: list[Array] = []
        self.count = 0

    def put(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            if x.dtype.kind in "biu":
                return {"a": [x.dtype.name, list(x.shape), x.reshape(-1).tolist()]}
            flat = x.reshape(-1)
            flat = flat if x.dtype.kind == "f" else np.stack([flat.real, flat.imag], -1).reshape(-1)
            self.parts.append(flat.astype("f4"))
            self.count += flat.size
            return {"a": [x.dtype.name, list(x.shape), self.count - flat.size]}
        if isinstance(x, dict):
            return {"d": {k: self.put(v) for k, v in x.items()}}
        if isinstance(x, (list, tuple)):
            return {"t" if isinstance(x, tuple) else "l": [self.put(v) for v in x]}
        if isinstance(x, (np.dtype, slice, complex)):
            return {type(x).__name__[0]: str(x)} if isinstance(x, (np.dtype, complex)) else _no(x)
        return x if x is None or isinstance(x, (bool, int, float, str)) else _no(x)

    def get(self, x: Any) -> Any:
        if not isinstance(x, dict):
            return x
        ((kind, held),) = x.items()
        if kind == "a":
            return self._array(*held)
        if kind == "d":
            return {k: self.get(v) for k, v in held.items()}
        if kind in "tl":
            parts = [self.get(v) for v in held]
            return tuple(parts) if kind == "t" else parts
        return complex(held)

    def _array(self, name: str, shape: list[int], held: Any) -> Array:
        dtype = np.dtype(name)
        if dtype.kind in "biu":
            return np.array(held, dtype).reshape(shape)
        assert self.numbers is not None
        wide = int(np.prod(shape, dtype=int)) * (2 if dtype.kind == "c" else 1)
        flat = self.numbers[held : held + wide].astype("f8")
        flat = flat if dtype.kind == "f" else flat[::2] + 1j * flat[1::2]
        return flat.reshape(shape).astype(dtype)


def _no(x: Any) -> Any:
    raise TypeError(f"{type(x).__name__} is not kept")


def kept() -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of an operation, and one sample after the other: args, kwargs, results, slopes."""
    with np.load(KEPT) as file:
        store, rows = Store(file["numbers"]), json.loads(str(file["rows"]))
    for name, samples in rows.items():
        for sample in samples:
            yield name, {key: store.get(value) for key, value in sample.items()}


def function(name: str) -> Any:
    found: Any = tb
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else getattr(tb.Tensor, name, None)


def tensors(x: Any) -> list[tb.Tensor]:
    """All that a call was given or has left, in order."""
    if isinstance(x, tb.Tensor):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [t for part in parts for t in tensors(part)]


def given(x: Any, slopes: bool) -> Any:
    if isinstance(x, np.ndarray):
        return tb.tensor(x, requires_grad=slopes and x.dtype.kind == "f")
    if isinstance(x, dict):
        return {k: given(v, slopes) for k, v in x.items()}
    return type(x)(given(v, slopes) for v in x) if isinstance(x, (list, tuple)) else x


def found(name: str, sample: dict[str, Any]) -> tuple[list[Array], list[Array | None]]:
    """What we answer: results, and slopes of the operands where they are kept."""
    slopes = sample["slopes"] is not None
    args, named = given(sample["args"], slopes), given(sample["kwargs"], slopes)
    outs = tensors(function(name)(*args, **named))
    results = [np.asarray(o.detach().numpy()) for o in outs]
    if not slopes:
        return results, []
    smooth = [o for o in outs if o.requires_grad]
    leaves = [t for t in tensors([args, named]) if t.requires_grad]
    cts = [tb.tensor(cotangent(tuple(o.shape)).astype(o.dtype)) for o in smooth]
    grads = tb.autograd.grad(smooth, leaves, cts, allow_unused=True) if smooth and leaves else []
    return results, [None if g is None else np.asarray(g.detach().numpy()) for g in grads]


def apart(want: Array, got: Array) -> str:
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{want.dtype}{list(want.shape)} is kept, {got.dtype}{list(got.shape)} here"
    if want.dtype.kind in "biu":
        return "" if np.array_equal(want, got) else f"{want} is kept, {got} here"
    with np.errstate(all="ignore"):
        finite = np.abs(want[np.isfinite(want)])
        scale = max(1.0, finite.max(initial=0.0))
        near = np.isclose(want, got.astype("f4" if want.dtype.kind == "f" else "c8"), TOLERANCE,
                          TOLERANCE * min(scale, 1.0), equal_nan=True)  # fmt: skip
    return "" if near.all() else f"{want} is kept, {got} here"


def problems(name: str, sample: dict[str, Any]) -> list[str]:
    results, slopes = found(name, sample)
    if len(results) != len(sample["results"]):
        return [f"{len(sample['results'])} results are kept, {len(results)} here"]
    said = [apart(a, b) for a, b in zip(sample["results"], results, strict=True)]
    for a, b in zip(sample["slopes"] or [], slopes, strict=True):
        if a is not None and b is not None:
            said.append(apart(a, b))
        elif a is not None or b is not None:
            left = a if b is None else b
            said.append("one has no slope" if left is not None and np.nan_to_num(left).any() else "")
    return [text for text in said if text]


def programs_kept() -> dict[str, Any]:
    """By the name of a program of `programs.py` what PyTorch answers."""
    with np.load(PROGRAMS_KEPT) as file:
        store, rows = Store(file["numbers"]), json.loads(str(file["rows"]))
    return {name: store.get(answer) for name, answer in rows.items()}


def shown(x: Any) -> Any:
    """A program's answer as arrays, numbers and texts, whoever gave it."""
    if hasattr(x, "detach"):
        x = x.detach()
        x = x.resolve_conj().resolve_neg() if hasattr(x, "resolve_conj") else x
        return np.array(x.numpy())
    if isinstance(x, (list, tuple)):
        return [shown(v) for v in x]
    if isinstance(x, dict):
        return {str(k): shown(v) for k, v in x.items()}
    return x if x is None or isinstance(x, (bool, int, float, str)) else str(x)


def differences(want: Any, got: Any, place: str = "answer") -> str:
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        said = apart(want, got)
        return f"{place}: {said}" if said else ""
    if isinstance(want, (list, dict)) and type(got) is type(want) and len(want) == len(got):
        pairs = want.items() if isinstance(want, dict) else enumerate(want)
        missing = isinstance(want, dict) and want.keys() != got.keys()
        said = "" if not missing else f"{place}: {list(want)} is kept, {list(got)} here"
        return said or next(filter(None, (differences(v, got[k], f"{place}[{k}]") for k, v in pairs)), "")
    if isinstance(want, np.ndarray) or isinstance(got, np.ndarray):
        return f"{place}: {want} is kept, {got} here"
    same = want == got or (isinstance(want, float) and abs(want - got) <= TOLERANCE * max(1.0, abs(want)))
    return "" if same else f"{place}: {want!r} is kept, {got!r} here"
