"""`tb.nn.attention`: which kernel attention uses is the compiler's choice; naming one changes nothing.

Enters: queries, keys, values and the user's functions of scores. Leaves: tensors. May import `framework` and
`base`. Read `flex_attention.py` first.
"""

from __future__ import annotations

from contextlib import nullcontext
from enum import Enum
from typing import Any


class SDPBackend(Enum):
    """PyTorch's kernels for attention."""

    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3


def sdpa_kernel(backends: Any, set_priority: bool = False) -> Any:
    """A context in which nothing changes."""
    return nullcontext()
