"""`tb.amp`: autocast and the scaler of gradients, called as PyTorch calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.framework.autocast import autocast
from trilobite.framework.optim.scaler import GradScaler as _GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


class GradScaler(_GradScaler):
    """The scaler for a kind of device; for GPUs, which there are none of, it does nothing."""

    def __init__(self, device: str = "cuda", *args: Any, enabled: bool = True, **kwargs: Any) -> None:
        kwargs["enabled"] = enabled and str(device).startswith("cpu")
        super().__init__(*args, **kwargs)


def is_autocast_available(device_type: str) -> bool:
    return device_type == "cpu"


def _unchanged(fn: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """A decorator that changes nothing: modes of autocast reach backward passes by themselves."""
    return fn if fn is not None else lambda f: f


custom_fwd = custom_bwd = _unchanged
