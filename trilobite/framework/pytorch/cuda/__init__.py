"""`tb.cuda`: there is no GPU, and this says so. What only waits for one or clears its memory does nothing."""

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
Stream = Event = current_stream = device = mem_get_info = _none_there
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _no_bytes
