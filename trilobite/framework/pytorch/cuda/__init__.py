"""`tb.cuda`: there is no GPU, and this says so. What only waits for one or clears its memory does nothing.

Enters: questions about GPUs. Leaves: that there is none. May import `framework`. Read `amp.py` first.
"""

from __future__ import annotations

from typing import Any

from trilobite.framework.devices import check_device
from trilobite.framework.pytorch.cuda import amp

__all__ = ["amp"]


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def device_count() -> int:
    return 0


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There is nothing to wait for, to clear or to seed."""


def _none_there(*args: Any, **kwargs: Any) -> Any:
    """An error: there is no GPU to ask about."""
    check_device("cuda")


def _no_bytes(*args: Any, **kwargs: Any) -> int:
    """No memory of a GPU is in use."""
    return 0


empty_cache = synchronize = manual_seed = manual_seed_all = reset_peak_memory_stats = ipc_collect = _nothing
current_device = get_device_name = get_device_properties = get_device_capability = set_device = _none_there
current_stream = default_stream = mem_get_info = memory_stats = memory_summary = graph = _none_there
get_rng_state = make_graphed_callables = stream = _none_there


class _OfGPU:
    """A thing of a GPU's: to make one is an error that says what there is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_device("cuda")


class Stream(_OfGPU):
    """A queue of a GPU's work."""


class Event(_OfGPU):
    """A mark in such a queue."""


class StreamContext(_OfGPU):
    """A context that chooses a queue."""


class CUDAGraph(_OfGPU):
    """Work that was put together beforehand."""


class device(_OfGPU):
    """A context that chooses a GPU."""


class OutOfMemoryError(RuntimeError):
    """A GPU's memory is full, which cannot happen here."""


def get_rng_state_all() -> list[Any]:
    """No GPU has a generator."""
    return []


def get_arch_list() -> list[str]:
    return []


default_generators: tuple[Any, ...] = ()
init = seed = seed_all = set_rng_state = set_rng_state_all = reset_max_memory_allocated = _nothing
set_per_process_memory_fraction = set_stream = reset_max_memory_cached = _nothing
memory_cached = max_memory_cached = utilization = _no_bytes
_initialized, has_half = False, False


def __getattr__(name: str) -> Any:
    """`tb.cuda.FloatTensor` is the class of that dtype."""
    from trilobite.framework.ops.dtypes import TENSOR_CLASSES

    if name in TENSOR_CLASSES:
        return TENSOR_CLASSES[name]
    raise AttributeError(f"tb.cuda has no {name!r}")


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _no_bytes
