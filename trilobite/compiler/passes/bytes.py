"""Which products and convolutions multiply bytes, and what they read: the same for layout and packing.

Enters: types and attributes. Leaves: decisions. Sums of products of 8-bit integers wrap around in 32 bits,
so results of 32 bits and less are exact; wider ones where no sum can leave 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from trilobite.base.dtypes import DType, bits, int8, is_integer, uint8
from trilobite.compiler.cpu.gemm.pairs import multiplies_bytes
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import Dim
from trilobite.native.host import Host

BYTES = (int8, uint8)
Emit = Callable[[str, tuple[Var, ...], Mapping[str, Any]], Var]


def exact(terms: Dim, dtype: DType) -> bool:
    """Are sums of so many products right in this dtype if they are kept in 32 bits?"""
    if not is_integer(dtype) or not isinstance(terms, int):
        return False
    return bits(dtype) <= 32 or terms * 255 * 255 < 1 << 31


def is_integer_convolution(e: Equation) -> bool:
    """A convolution of bytes that has a kernel: no spread input, more than one filter a channel."""
    x, w = (v.type for v in e.inputs)
    if e.primitive.name != "conv" or x.dtype not in BYTES:
        return False
    known = all(isinstance(n, int) and n > 0 for n in (*x.shape[1:], *w.shape))
    a = e.attributes
    channelwise = a["groups"] > 1 and w.shape[0] == a["groups"] and w.shape[1] == 1
    if not known or channelwise or any(d != 1 for d in a["x_dilation"]):
        return False
    return exact(prod(int(n) for n in w.shape[1:]), a["dtype"])


def zero_of(dtype: DType) -> int:
    """What is added to make unsigned bytes of these."""
    return 128 if dtype == int8 else 0


def moved(emit: Emit, x: Var) -> Var:
    """Unsigned bytes, by adding `zero_of`: in bytes that wrap around, the highest bit the other way round."""
    if x.type.dtype == uint8:
        return x
    cast = emit("cast", (x,), {"dtype": uint8})
    high = emit("full", (), {"shape": x.type.shape, "dtype": uint8, "value": 128})
    return emit("xor", (cast, high), {})


def panel_attributes(host: Host, x: DType, groups: int = 1, *, transposed: bool = False) -> dict[str, Any]:
    """Of `conv_integer_panels`, for activations that were `x`."""
    return {
        "groups": groups, "lanes": 2 * host.lanes(4), "zero": zero_of(x), "bytes": multiplies_bytes(host),
        "transposed": transposed,
    }  # fmt: skip


def conv_attributes(panels: Mapping[str, Any], columns: int, kernel: tuple[Any, ...]) -> dict[str, Any]:
    """Of `conv_integer`, for a weight in these panels."""
    same = {k: panels[k] for k in ("groups", "lanes", "zero")}
    return {**same, "columns": columns, "kernel": tuple(int(n) for n in kernel)}
