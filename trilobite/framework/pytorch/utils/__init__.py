"""`tb.utils`: what PyTorch keeps under this name: data, checkpoint, and rooms that come in when asked for.

Enters: calls as PyTorch's users write them. Leaves: what `tb.data`, `tb.checkpoint` and others give. May
import `framework` and `base`. Read `data.py` first.
"""

from __future__ import annotations

import importlib
from typing import Any

from trilobite.framework.pytorch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
_LATER = ("_pytree", "hooks", "dlpack", "model_zoo", "tensorboard")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"tb.utils has no {name!r}; it has {', '.join((*__all__, *_LATER))}")
