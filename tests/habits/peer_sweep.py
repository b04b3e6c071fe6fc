"""PyTorch's own samples of its operations, run there and here: values, first and second gradients.

PyTorch keeps samples of about 700 operations for its own tests (`op_db`). Each is converted, run in both, and
compared in float64: results, gradients by random cotangents, and gradients of these. `special` puts zeros,
ties and equal numbers in the place of a sample's numbers.
"""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import trilobite as tb

FINITE = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, 1.0, 0.0)
_DTYPES = "float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128".split()


def samples_of_pytorch() -> list[Any]:
    """PyTorch's table. It imports a package for texts of tests, which is not needed for samples."""
    if "expecttest" not in sys.modules:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def label(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def ours(op: Any) -> Callable[..., Any] | None:
    """Our function of that name; a helper of its tests runs with our package for torch."""
    f = op.op
    if isinstance(f, types.FunctionType) and f.__module__.startswith("torch.testing"):
        names = {**f.__globals__, "torch": tb}
        return types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)
    try:
        found: Any = tb
        for part in op.name.split("."):
            found = getattr(found, part)
    except AttributeError:
        found = getattr(tb.Tensor, op.name, None)
    return found if callable(found) else None


def converted(x: Any) -> Any:
    import torch

    if isinstance(x, torch.Tensor):
        out = tb.tensor(np.array(x.detach().resolve_conj().resolve_neg().numpy()))
        return out.requires_grad_() if x.requires_grad else out
    if isinstance(x, torch.dtype):
        return getattr(tb, str(x).split(".")[1])
    if isinstance(x, torch.device):
        return "cpu"
    if isinstance(x, (torch.layout, torch.memory_format)):
        return getattr(tb, str(x).split(".")[1])
    if isinstance(x, dict):
        return {k: converted(v) for k, v in x.items()}
    if type(x) in (list, tuple) or isinstance(x, torch.Size):
        parts = [converted(v) for v in x]
        return parts if type(x) is list else tuple(parts)
    return x


def tensors(x: Any, kind: type) -> list[Any]:
    if isinstance(x, kind):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [t for part in parts for t in tensors(part, kind)]


def special(sample: Any, random: np.random.Generator, pool: Sequence[float] = FINITE) -> Any:
    """The sample with numbers of the pool in the place of its own."""
    import torch
    from torch.testing._internal.opinfo.core import SampleInput

    def put(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype == torch.float64:
            new = torch.tensor(random.choice(pool, size=tuple(x.shape)), dtype=x.dtype)
            return new.requires_grad_(x.requires_grad)
        return type(x)(put(v) for v in x) if type(x) in (list, tuple) else x

    named = {k: put(v) for k, v in sample.kwargs.items()}
    return SampleInput(put(sample.input), args=tuple(put(a) for a in sample.args), kwargs=named)


def _numbers(x: Any) -> np.ndarray[Any, Any]:
    import torch

    if isinstance(x, torch.Tensor):
        return np.asarray(x.detach().resolve_conj().resolve_neg().numpy(force=True))
    return np.asarray(x.detach().numpy())


def apart(theirs: Any, found: Any, tolerance: float, where_finite: bool = False) -> str | None:
    """What differs; with `where_finite`, only where PyTorch's number is one."""
    a, b = _numbers(theirs), _numbers(found)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} there, {b.dtype}{b.shape} here"
    if a.dtype.kind in "biu":
        return None if np.array_equal(a, b) else "other integers"
    if a.dtype.kind == "c":
        a, b = np.stack([a.real, a.imag]), np.stack([b.real, b.imag])
    a, b = a.ravel(), b.ravel()
    if where_finite:
        a, b = a[np.isfinite(a)], b[np.isfinite(a)]
    if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(np.isinf(a), np.isinf(b)):
        return "NaN or inf at other places"
    known = np.isfinite(a)
    if not np.array_equal(a[~known], b[~known], equal_nan=True):
        return "another inf"
    scale = max(1.0, np.abs(a[known]).max(initial=0.0))
    error = np.abs(a[known] - b[known]).max(initial=0.0) / scale
    limit = max(tolerance, 2e-5) if a.itemsize < 8 else tolerance
    return None if error <= limit else f"apart by {error:.1e}"


class Comparison:
    """One sample in both. `problems` yields what differs, the first difference of the first stage only."""

    def __init__(self, op: Any, fn: Callable[..., Any], sample: Any, is_special: bool = False) -> None:
        import torch

        self.op, self.fn, self.special = op, fn, is_special
        self.theirs = ([sample.input, *sample.args], sample.kwargs)
        self.ours = converted(self.theirs[0]), converted(self.theirs[1])
        self.leaves = tensors(self.theirs, torch.Tensor), tensors(self.ours, tb.Tensor)
        self.random = np.random.default_rng(0)

    def problems(self, gradients: bool, second: bool) -> Iterator[str]:
        import torch

        try:
            there = self.op.op(*self.theirs[0], **self.theirs[1])
        except Exception:  # PyTorch refuses these numbers
            return
        here = self.fn(*self.ours[0], **self.ours[1])
        outs, found = tensors(there, torch.Tensor), tensors(here, tb.Tensor)
        if len(outs) != len(found) or (not outs and there != here):
            yield f"{len(outs)} results there, {len(found)} here"
            return
        for a, b in zip(outs, found, strict=True):
            if problem := apart(a, b, 1e-8):
                yield f"values: {problem}"
                return
        if gradients:
            pairs = [(a, b) for a, b in zip(outs, found, strict=True) if a.requires_grad]
            yield from self._gradients(pairs, second)

    def _gradients(self, pairs: list[tuple[Any, Any]], second: bool) -> Iterator[str]:
        import torch

        leaves = [(t, o) for t, o in zip(*self.leaves, strict=True) if t.requires_grad]
        if not pairs or not leaves:
            return
        cts = [self._cotangent(a, second) for a, _ in pairs]
        try:
            there = torch.autograd.grad(
                [a for a, _ in pairs], [t for t, _ in leaves], [a for a, _ in cts],
                create_graph=second, allow_unused=True,
            )  # fmt: skip
        except RuntimeError:  # not implemented there
            return
        here = tb.autograd.grad(
            [b for _, b in pairs], [o for _, o in leaves], [b for _, b in cts],
            create_graph=second, allow_unused=True,
        )  # fmt: skip
        yield from self._compared("gradient", there, here, 1e-8)
        again = [
            (a, b)
            for a, b in zip(there, here, strict=True)
            if second and a is not None and b is not None and a.requires_grad and b.requires_grad
        ]
        if again:
            yield from self._second(again, [*leaves, *cts])

    def _second(self, pairs: list[tuple[Any, Any]], inputs: list[tuple[Any, Any]]) -> Iterator[str]:
        import torch

        cts = [self._cotangent(a, False) for a, _ in pairs]
        try:
            there = torch.autograd.grad(
                [a for a, _ in pairs], [t for t, _ in inputs], [a for a, _ in cts], allow_unused=True
            )
        except RuntimeError:
            return
        here = tb.autograd.grad(
            [b for _, b in pairs], [o for _, o in inputs], [b for _, b in cts], allow_unused=True
        )
        yield from self._compared("second gradient", there, here, 1e-7)

    def _compared(self, what: str, there: Any, here: Any, tolerance: float) -> Iterator[str]:
        for i, (a, b) in enumerate(zip(there, here, strict=True)):
            if a is None or b is None:  # none, or zeros
                given = a if b is None else b
                if given is not None and np.nan_to_num(_numbers(given)).any():
                    yield f"{what} of operand {i}: one has none"
            elif problem := apart(a, b, tolerance, where_finite=self.special):
                yield f"{what} of operand {i}: {problem}"

    def _cotangent(self, a: Any, wanted: bool) -> tuple[Any, Any]:
        import torch

        value = self.random.standard_normal(tuple(a.shape))
        if a.dtype.is_complex:
            value = value + 1j * self.random.standard_normal(tuple(a.shape))
        mine = tb.tensor(value).to(getattr(tb, str(a.dtype).split(".")[1]))
        return torch.tensor(value, dtype=a.dtype).requires_grad_(wanted), mine.requires_grad_(wanted)
