"""Twenty model sources written for PyTorch run under both: `torch` replaced by `trilobite`, nothing else.

Weights come from PyTorch's model by their names, the batch from one generator; forward, backward and one step
of SGD with momentum agree.
"""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import trilobite as tb  # noqa: E402

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]
HERE = Path(__file__).parent / "models"
SOURCES = sorted(p.stem for p in HERE.glob("*.py"))


def loaded(name: str, package: str) -> types.ModuleType:
    text = re.sub(r"\btorch\b", package, (HERE / f"{name}.py").read_text(encoding="utf-8"))
    module = types.ModuleType(f"{name}_on_{package}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(text, f"{name}_on_{package}.py", "exec"), module.__dict__)
    return module


def batch_of(spec: dict[str, Any], dtype: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    out = {}
    for key, (kind, *rest) in spec.items():
        if kind == "int":
            out[key] = rng.integers(0, rest[0], rest[1])
        else:
            out[key] = getattr(rng, kind)(size=rest[0]).astype(dtype)
    return out


def run(module: Any, lib: Any, state: Any, batch: dict[str, np.ndarray], dtype: Any) -> dict[str, np.ndarray]:
    model = module.make()
    if np.dtype(dtype) == np.float64:
        model.double()
    model.train()
    model.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
    optimizer = lib.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    optimizer.zero_grad()
    value = module.loss(model, {k: lib.from_numpy(v.copy()) for k, v in batch.items()})
    value.backward()
    found = {"loss": value.detach().numpy().copy()}
    for name, p in model.named_parameters():
        if p.grad is not None:
            found[f"grad {name}"] = p.grad.detach().numpy().copy()
    optimizer.step()
    for name, t in model.state_dict().items():
        found[f"after {name}"] = t.detach().numpy().copy()
    return found


def first_state(module: Any, dtype: Any) -> dict[str, np.ndarray]:
    torch.manual_seed(3)
    model = module.make()
    state = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    return {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in state.items()}


def test_there_are_twenty() -> None:
    assert len(SOURCES) == 20


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-9), (np.float32, 1e-5)], ids=["f64", "f32"])
@pytest.mark.parametrize("name", SOURCES)
def test_the_same_source_gives_the_same_training_step(name: str, dtype: Any, tolerance: float) -> None:
    theirs, ours = loaded(name, "torch"), loaded(name, "trilobite")
    state, batch = first_state(theirs, dtype), batch_of(theirs.BATCH, dtype)
    want, got = run(theirs, torch, state, batch, dtype), run(ours, tb, state, batch, dtype)
    zero = {k for k, v in want.items() if k not in got and k.startswith("grad ") and not v.any()}
    assert got.keys() == want.keys() - zero
    for kind in ("loss", "grad ", "after "):
        names = [k for k in got if k.startswith(kind)]
        largest = max((float(np.abs(want[k]).max()) for k in names if want[k].size), default=0.0)
        for k in names:
            assert want[k].shape == got[k].shape, k
            gap = np.abs(got[k].astype(np.float64) - want[k].astype(np.float64)).max(initial=0.0)
            assert gap <= tolerance * max(largest, 1e-30), f"{k}: {gap:.2e} of {largest:.2e}"
