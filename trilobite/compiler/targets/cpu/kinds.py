"""The kinds of kernels the CPU has: who accepts a region, and who lowers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from trilobite.compiler.graph.fuse import FusionPolicy, Kind
from trilobite.compiler.program.kernels import Lower
from trilobite.ir.primitives import table


class Kinds(NamedTuple):
    """What is fused, and by the kind's name how it becomes kernels."""

    policy: FusionPolicy
    lowerings: dict[str, Lower]


def sized(kinds: Mapping[str, Kind], roots: Mapping[str, str]) -> FusionPolicy:
    """A policy with the figures of this target."""
    return FusionPolicy(
        kinds,
        roots,
        largest=64,
        constant=1,
        from_memory=1 << 22,  # 16 MiB of float32: more than the part of the last cache that a program has
        transposed=1 << 15,  # 128 KiB of float32: more than a first cache
        chain=6,
        joined=1 << 15,  # not less than from which on `nests.joins` writes pieces
        codes=True,
    )


# kind -> the module of this package that accepts and lowers its regions
_ROOMS = {
    "loops": "nests.lower",
    "dot": "contraction.gemm.lower",
    "conv": "contraction.convolution",
    "window": "contraction.pooling.lower",
    "attention": "contraction.attention.lower",
    "linalg": "linalg.lower",
    "sorting": "sorting.lower",
    "lookup": "lookups",
}


@cache
def kinds() -> Kinds:
    """The table. A kind's room is loaded when a region of it is first asked about: most graphs have few."""
    return Kinds(
        sized(
            {kind: Kind(kind, _late(room, "accepts")) for kind, room in _ROOMS.items()},
            {name: kind for name in table for kind in [_root(name)] if kind},
        ),
        {kind: _late(room, "lower") for kind, room in _ROOMS.items()},
    )


def _late(room: str, name: str) -> Callable[[Any], Any]:
    """A function of a room that is loaded when it is first called."""

    @cache
    def found() -> Any:
        return getattr(import_module(f"{__package__}.{room}"), name)

    return lambda asked: found()(asked)


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
    if name == "lookup":
        return "lookup"
    if name in ("sort", "top_k"):
        return "sorting"
    if name in ("lu", "triangular_solve"):
        return "linalg"
    if name.startswith("conv_") and name not in _UNLIKE:
        return "conv"
    return "window" if name.startswith("window_last_") else None
