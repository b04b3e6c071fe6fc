"""How a register tile multiplies: single numbers, or neighbours whose products are added by one instruction.

Enters: vectors; of pairs and quads, vectors of 32-bit lanes that hold two 16-bit or four 8-bit numbers.
Leaves: sums. Those of integers are exact; where there is no such instruction, the same in several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from trilobite.compiler.targets.cpu.primitives.conv_integer import ANY_BYTES, IN_16_BITS
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import is_float_type, lanes_of, vector

Multiply = Literal["single", "pairs", "quads"]
_DOT = {
    "pairs": {8: "x86.avx512.vpdpwssd.256", 16: "x86.avx512.vpdpwssd.512"},
    "quads": {8: "x86.avx512.vpdpbusd.256", 16: "x86.avx512.vpdpbusd.512"},
}  # VNNI: products and sum in one; AVX-VNNI has the shorter ones under the same names
_MADD = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
_MADD_BYTES = {8: "x86.avx2.pmadd.ub.sw", 16: "x86.avx512.pmaddubs.w.512"}


def has_dots(host: Host, lanes: int) -> bool:
    """Is there an instruction (VNNI) that adds products of neighbours to 32-bit sums in so many lanes?"""
    present = host.features.split(",")
    return "+avx512vnni" in present or ("+avxvnni" in present and lanes == 8)


def neighbours_limit(host: Host) -> int:
    """What the sizes of two neighbouring weights may add up to in products of bytes; 0: there are none."""
    if has_dots(host, 8):
        return ANY_BYTES
    return IN_16_BITS if host.triple.startswith("x86_64") and host.lanes(4) in _MADD_BYTES else 0


def multiply_add(t: Text, a: Value, b: Value, total: Value) -> Value:
    return t.fma(a, b, total) if is_float_type(total.type) else t.add(total, t.mul(a, b))


def filtered(t: Text, x: Value, w: Value, total: Value, narrow: bool) -> Value:
    """The sum with products of lanes. `narrow`: both are integers of 16 signed bits, widened to 32: then the
    high half of one is left out, and a product of pairs is that of the low ones.
    """
    lanes = lanes_of(total.type)
    if not narrow or not lanes:
        return multiply_add(t, x, w, total)
    return add_pairs(t, x, t.and_(w, 0xFFFF), total, lanes)


def add_pairs(t: Text, x: Value, y: Value, total: Value, lanes: int) -> Value:
    """To each 32-bit lane, the sum of the products of its two signed 16-bit halves."""
    a, b = (_as(t, v, vector("i16", 2 * lanes)) for v in (x, y))
    if has_dots(t.host, lanes):
        return t.intrinsic(_DOT["pairs"][lanes], total.type, total, a, b, suffix="")
    return t.add(total, _added_pairs(t, a, b, lanes))


def add_quads(t: Text, x: Value, y: Value, total: Value, lanes: int, ones: Callable[[], Value]) -> Value:
    """To each 32-bit lane, the sum of the products of x's four unsigned bytes with y's four signed ones.
    Without VNNI products of two neighbours are added in 16 bits (`neighbours_limit`) and then multiplied by
    16-bit `ones`.
    """
    a, b = (_as(t, v, vector("i8", 4 * lanes)) for v in (x, y))
    if has_dots(t.host, lanes):
        return t.intrinsic(_DOT["quads"][lanes], total.type, total, a, b, suffix="")
    pairs = t.intrinsic(_MADD_BYTES[lanes], vector("i16", 2 * lanes), a, b, suffix="")
    return t.add(total, _added_pairs(t, pairs, ones(), lanes))


def _as(t: Text, v: Value, type: str) -> Value:
    return t.define(type, f"bitcast {v.typed} to {type}")


def _added_pairs(t: Text, a: Value, b: Value, lanes: int) -> Value:
    if t.host.triple.startswith("x86_64") and lanes in _MADD:
        return t.intrinsic(_MADD[lanes], vector("i32", lanes), a, b, suffix="")
    products = [
        t.mul(*(t.convert("sext", t.shuffle(v, None, range(i, 2 * lanes, 2)), "i32") for v in (a, b)))
        for i in range(2)
    ]
    return t.add(*products)
