"""`tb.cuda.amp`: mixed precision for GPUs, which there are none of: both do nothing, as PyTorch's then."""

from __future__ import annotations

from typing import Any

from trilobite.framework.autocast import autocast as _autocast
from trilobite.framework.optim.scaler import GradScaler as _GradScaler
from trilobite.framework.pytorch.amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_autocast):
    """Switched off: there is no GPU."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", enabled=enabled)


class GradScaler(_GradScaler):
    """Switched off: there is no GPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "enabled": False})
