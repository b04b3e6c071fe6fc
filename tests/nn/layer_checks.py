"""From a case of the table to a module with its inputs, in one dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from layer_cases import Case

import trilobite as tb
from trilobite.framework import nn, random


def build(case: Case, dtype: str = "float64", seed: int = 7) -> nn.Module:
    """The layer with weights that are all over the place: no zeros, no ones."""
    random.manual_seed(seed)
    layer = getattr(nn, case.layer)(*case.args, **case.kwargs).to(dtype)
    rng = np.random.default_rng(seed)
    with tb.no_grad():
        for p in layer.parameters():
            p.copy_(rng.standard_normal(p.shape) * 0.6 + 0.1)
    return layer


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(dtype) if array.dtype.kind == "f" else array


def inputs(case: Case, dtype: str = "float64") -> list[tb.Tensor]:
    return [tb.tensor(cast(a, dtype)) for a in case.arrays()]


def differentiable(case: Case) -> list[int]:
    """The positions of inputs that are differentiated."""
    return [i for i, a in enumerate(case.arrays()) if a.dtype.kind == "f" and i not in case.fixed]


def call(layer: Any, case: Case, args: list[Any]) -> Any:
    random.manual_seed(11)
    return layer(*args, **case.call)
