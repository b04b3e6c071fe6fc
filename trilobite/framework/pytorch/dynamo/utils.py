"""What PyTorch's compiler supports: nothing, it is not here."""

from __future__ import annotations

from typing import Any


def is_compile_supported(device_type: Any) -> bool:
    return False
