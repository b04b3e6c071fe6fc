"""The kinds of kernels the CPU has: who accepts a region, and who lowers it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from trilobite.compiler.kernels import Lower
from trilobite.compiler.passes.fuse import Kind
from trilobite.ir.primitives import table


class Kinds(NamedTuple):
    """By name: what a region may be, and how it becomes kernels; and which primitive begins which kind."""

    kinds: dict[str, Kind]
    lowerings: dict[str, Lower]
    roots: dict[str, str]


@cache
def kinds() -> Kinds:
    """The table, with the rooms that it names loaded at first use."""
    from trilobite.compiler.cpu import attention, conv, gemm, nests

    rooms: dict[str, Any] = {"loops": nests, "dot": gemm, "conv": conv, "window": conv.pooling}
    rooms["attention"] = attention
    return Kinds(
        {name: Kind(name, room.accepts) for name, room in rooms.items()},
        {name: room.lower for name, room in rooms.items()},
        {
            "call": "attention",
            "dot": "dot",
            "dot_packed": "dot",
            "gemm_pack": "dot",
            "conv_last": "conv",
            "conv_last_input_grad": "conv",
            "conv_last_weight_grad": "conv",
            **{name: "window" for name in table if name.startswith("window_last_")},
            "conv_panels": "conv",
            "conv_winograd": "conv",
            "conv_winograd_weight": "conv",
            "window_last_reduce": "window",
            "window_last_spread": "window",
            "window_last_max_grad": "window",
        },
    )
