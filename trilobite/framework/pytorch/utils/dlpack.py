"""`tb.utils.dlpack`: memory shared with other libraries."""

from __future__ import annotations

from typing import Any

from trilobite.framework.ops.registry import operators


def from_dlpack(ext_tensor: Any) -> Any:
    return operators["from_dlpack"].public(ext_tensor)


def to_dlpack(tensor: Any) -> Any:
    return tensor.__dlpack__()
