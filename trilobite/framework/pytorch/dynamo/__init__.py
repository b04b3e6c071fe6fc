"""`tb._dynamo`: PyTorch's compiler of Python frames, which is not here; marks for it change nothing.

Enters: functions with marks. Leaves: the same functions. May import `framework.pytorch`. Read `utils.py`
first.
"""

from typing import Any

from trilobite.framework.pytorch.compiler import disable, is_compiling, marked

allow_in_graph = mark_dynamic = mark_static = mark_unbacked = maybe_mark_dynamic = marked
assume_constant_result = mark_static_address = disallow_in_graph = graph_break = marked
is_dynamo_supported = is_compiling


def reset() -> None:
    """Nothing is kept."""


class _Config:
    """Settings of that compiler: taken, and looked at by nobody."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


config = _Config()

__all__ = ["allow_in_graph", "config", "disable", "mark_dynamic", "mark_static", "reset"]
