"""Writes `answers.npz` beside this file: `python -m tests.habits.keep_answers`, in the peers' environment."""

from __future__ import annotations

import json
import sys
import types
import warnings
from typing import Any

import numpy as np
import torch

import trilobite as tb
from tests.habits.answers import (
    GRID,
    KEPT,
    LARGEST,
    PROGRAMS_KEPT,
    Store,
    cotangent,
    differences,
    function,
    problems,
    shown,
)
from tests.habits.peer_sweep import label, samples_of_pytorch
from tests.habits.programs import PROGRAMS

KINDS = {torch.float64: 6, torch.float32: 1, torch.int64: 2, torch.bool: 1, torch.complex128: 1}
RANDOM = ("dropout", "rrelu", "normal", "rand", "multinomial", "bernoulli", "empty", "cauchy", "exponential",
          "geometric", "uniform", "fractional", "lowrank", "svd", "eig", "qr", "attention")  # fmt: skip


def plain(x: Any) -> Any:
    """As NumPy's arrays on the grid; what cannot be kept raises."""
    if isinstance(x, torch.Tensor):
        a = np.array(x.detach().resolve_conj().resolve_neg().numpy())
        if a.dtype.kind == "c":
            return np.asarray((np.round(a.real * GRID) + 1j * np.round(a.imag * GRID)) / GRID, a.dtype)
        return np.asarray(np.round(a * GRID) / GRID, a.dtype) if a.dtype.kind == "f" else a
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        parts = [plain(v) for v in x]
        return parts if type(x) is list else tuple(parts)
    if isinstance(x, np.generic):
        return x.item()
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return x
    raise TypeError


def theirs(x: Any, slopes: bool) -> Any:
    if isinstance(x, np.ndarray):
        return torch.tensor(x, requires_grad=slopes and x.dtype.kind == "f")
    if isinstance(x, dict):
        return {k: theirs(v, slopes) for k, v in x.items()}
    return type(x)(theirs(v, slopes) for v in x) if isinstance(x, (list, tuple)) else x


def leaves(x: Any) -> list[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [t for part in parts for t in leaves(part)]


def numbers(t: torch.Tensor) -> Any:
    return np.array(t.detach().resolve_conj().resolve_neg().numpy())


def answered(op: Any, sample: Any, slopes: bool) -> dict[str, Any]:
    args, named = plain((sample.input, *sample.args)), plain(sample.kwargs)
    given, words = theirs(args, slopes), theirs(named, slopes)
    outs = leaves(op.op(*given, **words))
    operands = leaves([given, words])
    if not outs or sum(t.numel() for t in [*outs, *operands]) > LARGEST:
        raise TypeError
    grads: list[Any] | None = None
    wanted = [t for t in operands if t.requires_grad]
    smooth = [o for o in outs if o.requires_grad]
    if slopes and wanted and smooth:
        cts = [torch.tensor(cotangent(tuple(o.shape))).to(o.dtype) for o in smooth]
        got = torch.autograd.grad(smooth, wanted, cts, allow_unused=True)
        grads = [None if g is None else numbers(g) for g in got]
    return {"args": args, "kwargs": named, "results": [numbers(o) for o in outs], "slopes": grads}


def samples(op: Any, dtype: Any, count: int) -> list[dict[str, Any]]:
    if dtype not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(0)
    slopes = dtype == torch.float64 and op.supports_autograd
    made = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        try:
            made.append(answered(op, sample, slopes))
        except Exception:
            continue
    return made[:: max(1, -(-len(made) // count))]


def main() -> None:
    store, rows, told = Store(), {}, []
    for op in samples_of_pytorch():
        name = op.name
        is_helper = isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing")
        if function(name) is None or name.startswith("_") or any(w in name for w in RANDOM) or is_helper:
            continue
        for dtype, count in KINDS.items():
            for sample in samples(op, dtype, count):
                try:
                    said = problems(name, sample)
                except Exception as error:
                    said = [f"{type(error).__name__}: {error}".splitlines()[0]]
                if said:
                    told.append(f"{label(op)} {dtype}: {said[0][:150]}")
                else:
                    rows.setdefault(name, []).append({k: store.put(v) for k, v in sample.items()})
    np.savez_compressed(KEPT, numbers=np.concatenate(store.parts), rows=np.array(json.dumps(rows)))
    print("\n".join(told), file=sys.stderr)
    print(f"{sum(map(len, rows.values()))} samples of {len(rows)} operations, {KEPT.stat().st_size} bytes")


def keep_programs() -> None:
    """Each program with PyTorch; one that answers otherwise here is told, and not kept."""
    store, rows = Store(), {}
    for name, fn in PROGRAMS.items():
        try:
            want = shown(fn(torch))
        except Exception as error:
            print(f"{name} fails there: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            continue
        try:
            said = differences(want, shown(fn(tb)))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said:
            print(f"{name}: {said[:300]}", file=sys.stderr)
        else:
            rows[name] = store.put(want)
    np.savez_compressed(PROGRAMS_KEPT, numbers=np.concatenate(store.parts), rows=np.array(json.dumps(rows)))
    print(f"{len(rows)} of {len(PROGRAMS)} programs, {PROGRAMS_KEPT.stat().st_size} bytes")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    keep_programs() if "programs" in sys.argv else main()
