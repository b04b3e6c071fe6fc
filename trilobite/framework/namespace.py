"""What `tb.` offers: names and the objects they stand for.

The operations come from the operator table. Rooms that not every program enters (transforms, jit, nn, optim,
data, files) are named here and imported when they are first used, so that `import trilobite` stays quick.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from trilobite.base import dtypes, errors, pytree
from trilobite.framework import heavy, heavy_composites, ops
from trilobite.framework.inspection import NamespaceInfo
from trilobite.framework.tensor import Tensor
from trilobite.ir.types import dim

heavy.install()
heavy_composites.install()

CONSTANTS: dict[str, Any] = {"e": math.e, "inf": math.inf, "nan": math.nan, "pi": math.pi, "newaxis": None}
DTYPES: dict[str, Any] = dict(dtypes.BY_NAME)
OTHERS: dict[str, Any] = {
    "Tensor": Tensor,
    "dim": dim,
    "errors": errors,
    "tree": pytree,
    "__array_namespace_info__": NamespaceInfo,
}

ROOMS = {
    "nn": "trilobite.framework.nn",
    "optim": "trilobite.framework.optim",
    "data": "trilobite.framework.data",
    "metrics": "trilobite.framework.metrics",
    "logs": "trilobite.framework.logs",
    "random": "trilobite.framework.random",
    "debug": "trilobite.framework.debug",
    "linalg": "trilobite.framework.ops.linalg",
    "fft": "trilobite.framework.ops.fft",
    "zoo": "trilobite.zoo",
    "inference": "trilobite.inference",
}
_BY_ROOM = {
    "transforms": "grad value_and_grad vjp jvp",
    "mapping": "vmap",
    "modes": "stop_gradient no_grad enable_grad is_grad_enabled",
    "jit": "jit make_graph eval_shape",
    "control": "cond switch while_loop scan fori_loop associative_scan",
    "rules": "custom_vjp custom_jvp",
    "function_class": "Function",
    "custom_op": "custom_op TensorType",
    "checkpointing": "checkpoint",
    "jacobians": "jacfwd jacrev hessian",
    "autocast": "autocast",
    "random": "manual_seed rand randn randint randperm rand_like randn_like randint_like normal bernoulli",
    "fit": "fit EarlyStopping",
    "nn": "functional_call",
    "checkpoint": ("Checkpointer save load load_pth save_safetensors load_safetensors save_npz load_npz"),
}
LATER = {name: f"trilobite.framework.{room}" for room, names in _BY_ROOM.items() for name in names.split()}
"""Names and the room each comes from."""


def names() -> dict[str, Any]:
    """Everything that is there as soon as the framework is."""
    table = {row.name: row.public for row in ops.operators.values() if "." not in row.name}
    return {**table, **CONSTANTS, **DTYPES, **OTHERS}


def later(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name in ROOMS:
        return importlib.import_module(ROOMS[name])
    if name in LATER:
        return getattr(importlib.import_module(LATER[name]), name)
    raise AttributeError(f"trilobite has no {name!r}{_hint(name)}")


def _hint(name: str) -> str:
    """The nearest name, if one is near: what PyTorch or NumPy call otherwise, or a slip of the keys."""
    import difflib

    near = difflib.get_close_matches(name, [*names(), *ROOMS, *LATER], n=1)
    return f"; did you mean tb.{near[0]}?" if near else ""
