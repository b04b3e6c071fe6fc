"""How a register tile multiplies: single numbers, or neighbours whose products are added by one instruction.

Enters: vectors; of pairs and quads, vectors of 32-bit lanes that hold two 16-bit or four 8-bit numbers.
Leaves: sums. Those of integers are exact; where there is no such instruction, the same in several.
"""

from __future__ import annotations

from typing import Literal

from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import is_float_type, vector

Multiply = Literal["single", "pairs", "quads"]
_MADD = {4: "x86.sse2.pmadd.wd", 8: "x86.avx2.pmadd.wd", 16: "x86.avx512.pmaddw.d.512"}
_MADD_BYTES = {8: "x86.avx2.pmadd.ub.sw", 16: "x86.avx512.pmaddubs.w.512"}


def multiplies_bytes(host: Host) -> bool:
    """Is there an instruction for four products of bytes that is quicker than two of 16 bits?"""
    return host.triple.startswith("x86_64") and host.lanes(4) in _MADD_BYTES


def multiply_add(t: Text, a: Value, b: Value, total: Value) -> Value:
    return t.fma(a, b, total) if is_float_type(total.type) else t.add(total, t.mul(a, b))


def pair_products(t: Text, x: Value, y: Value, lanes: int) -> Value:
    """Per 32-bit lane, the sum of the products of its two signed 16-bit halves."""
    halves = vector("i16", 2 * lanes)
    a, b = (t.define(halves, f"bitcast {v.typed} to {halves}") for v in (x, y))
    return _added_pairs(t, a, b, lanes)


def quad_products(t: Text, x: Value, y: Value, ones: Value, lanes: int) -> Value:
    """Per 32-bit lane, the sum of the products of x's four unsigned bytes with y's four signed ones. The
    sizes of two neighbours in y add up to 128 at most, so their products fit in 16 bits. `ones`: 16-bit.
    """
    bytes = vector("i8", 4 * lanes)
    a, b = (t.define(bytes, f"bitcast {v.typed} to {bytes}") for v in (x, y))
    pairs = t.intrinsic(_MADD_BYTES[lanes], vector("i16", 2 * lanes), a, b, suffix="")
    return _added_pairs(t, pairs, ones, lanes)


def _added_pairs(t: Text, a: Value, b: Value, lanes: int) -> Value:
    if t.host.triple.startswith("x86_64") and lanes in _MADD:
        return t.intrinsic(_MADD[lanes], vector("i32", lanes), a, b, suffix="")
    products = [
        t.mul(*(t.convert("sext", t.shuffle(v, None, range(i, 2 * lanes, 2)), "i32") for v in (a, b)))
        for i in range(2)
    ]
    return t.add(*products)
