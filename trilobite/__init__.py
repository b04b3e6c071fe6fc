"""Trilobite: a whole AI computing system in one package. `import trilobite as tb`."""

from __future__ import annotations

from typing import Any

from trilobite.base.dtypes import (
    bfloat16, complex64, complex128, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
)  # fmt: skip
from trilobite.framework import ops
from trilobite.framework.control import associative_scan, cond, fori_loop, scan, switch, while_loop
from trilobite.framework.jit import eval_shape, jit, make_graph
from trilobite.framework.rules import Function, checkpoint, custom_jvp, custom_vjp
from trilobite.framework.tensor import Tensor
from trilobite.framework.transforms import (
    enable_grad, grad, hessian, jacfwd, jacrev, jvp, no_grad, stop_gradient, value_and_grad, vjp, vmap,
)  # fmt: skip
from trilobite.ir.types import dim

__version__ = "0.1.0"
globals().update({row.name: row.public for row in ops.operators.values()})
