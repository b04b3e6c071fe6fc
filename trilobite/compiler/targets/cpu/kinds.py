"""The kinds of kernels the CPU has: who accepts a region, and who lowers it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from trilobite.compiler.graph.fuse import FusionPolicy, Kind
from trilobite.compiler.program.kernels import Lower
from trilobite.ir.primitives import table


class Kinds(NamedTuple):
    """What is fused, and by the kind's name how it becomes kernels."""

    policy: FusionPolicy
    lowerings: dict[str, Lower]


@cache
def kinds() -> Kinds:
    """The table, with the rooms that it names loaded at first use."""
    from trilobite.compiler.targets.cpu import attention, conv, gemm, linalg, nests, sorting

    rooms: dict[str, Any] = {"loops": nests, "dot": gemm, "conv": conv, "window": conv.pooling}
    rooms |= {"attention": attention, "linalg": linalg, "sorting": sorting}
    return Kinds(
        FusionPolicy(
            {name: Kind(name, room.accepts) for name, room in rooms.items()},
            {name: kind for name in table for kind in [_root(name)] if kind},
        ),
        {name: room.lower for name, room in rooms.items()},
    )


_PRODUCTS = frozenset({"dot", "dot_packed", "dot_quantised", "gemm_pack"})
_UNLIKE = frozenset(
    {"conv", "conv_input_grad", "conv_weight_grad"}
)  # not channels last: the layout pass left them


def _root(name: str) -> str | None:
    """The kind that a primitive begins a group of; loops if none."""
    if name == "call":
        return "attention"
    if name in _PRODUCTS:
        return "dot"
    if name in ("sort", "top_k"):
        return "sorting"
    if name in ("lu", "triangular_solve"):
        return "linalg"
    if name.startswith("conv_") and name not in _UNLIKE:
        return "conv"
    return "window" if name.startswith("window_last_") else None
