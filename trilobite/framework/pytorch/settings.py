"""Settings of the process under PyTorch's names: default dtype, threads, printing, random state, `compile`.

What chooses between algorithms there and has one here is accepted where it asks for what is done anyway,
and is documented to change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location
from trilobite.framework import autocast as casting
from trilobite.framework import promotion
from trilobite.framework.change_counter import count_change
from trilobite.framework.devices import CPU, check_device, device
from trilobite.framework.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    seed,
    set_rng_state,
)
from trilobite.framework.tensor import Tensor

__all__ = ["Generator", "default_generator", "get_rng_state", "initial_seed", "seed", "set_rng_state"]


def set_default_dtype(dtype: Any) -> None:
    """The dtype of Python floats and of tensors made without one, from now on: float32 or float64."""
    wanted = dt.as_dtype(getattr(dtype, "tensor_dtype", dtype))
    if wanted not in (dt.float32, dt.float64, dt.float16, dt.bfloat16):
        raise DTypeError(
            f"{wanted} as the default dtype", where=user_location(), expected="a float of 16 bits or more"
        )
    dt.default_float, dt.default_complex = wanted, dt.complex_of(wanted)
    promotion.promote_scalar.cache_clear()
    count_change()


set_default_tensor_type = set_default_dtype


def get_default_dtype() -> dt.dtype:
    return dt.shown(dt.default_float)


def set_num_threads(count: int) -> None:
    """How many threads compiled code uses."""
    from trilobite.native.pool import set_threads

    set_threads(count)


def get_num_threads() -> int:
    from trilobite.native.pool import threads

    return threads()


_between_operations = 1


def set_num_interop_threads(count: int) -> None:
    """Kept and without effect: operations run one after the other."""


def get_num_interop_threads() -> int:
    return _between_operations


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are shown: digits, and when rows are left out."""
    import numpy as np

    given = {"precision": precision, "edgeitems": edgeitems, "linewidth": linewidth}
    if threshold is not None:
        given["threshold"] = 2**31 - 1 if math.isinf(threshold) else int(threshold)
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    np.set_printoptions(**options)


def _kept(*args: Any, **kwargs: Any) -> None:
    """Kept and without effect: the same program gives the same bits, in full precision, anyway."""


use_deterministic_algorithms = set_float32_matmul_precision = set_warn_always = set_flush_denormal = _kept


def are_deterministic_algorithms_enabled() -> bool:
    return True


def get_float32_matmul_precision() -> str:
    return "highest"


def set_default_device(name: Any) -> None:
    """The CPU, the one there is."""
    check_device(name)


def get_default_device() -> device:
    return CPU


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def is_storage(x: Any) -> bool:
    return False


def typename(x: Any) -> str:
    return x.type() if isinstance(x, Tensor) else f"{type(x).__module__}.{type(x).__qualname__}"


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    return casting.autocast_dtype() is not None and device_type == "cpu"


def is_autocast_cpu_enabled() -> bool:
    return casting.autocast_dtype() is not None


def get_autocast_dtype(device_type: str = "cpu") -> dt.dtype:
    return dt.shown(casting.autocast_dtype() or dt.bfloat16)


get_autocast_cpu_dtype = get_autocast_dtype


def _assert(condition: Any, message: str = "") -> None:
    """An assertion that PyTorch's tracers see; conditions that only a run knows are passed over."""
    from trilobite.base.errors import TraceError

    try:
        holds = bool(condition)
    except TraceError:
        return
    if not holds:
        raise AssertionError(message)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """`tb.jit` as PyTorch calls it. A module stays the module it is; its calls run compiled."""
    from trilobite.framework.jit import jit
    from trilobite.framework.nn.module import Module

    if model is None:
        return lambda f: compile(f, disable=disable)
    if disable:
        return model
    if not isinstance(model, Module):
        return jit(model)
    forward: Callable[..., Any] = jit(model.forward)
    object.__setattr__(model, "forward", forward)
    return model
