"""Bytes looked up in a table of 256.

Enters: bytes in registers, and where the table is. Leaves: bytes. With VBMI a table is four registers, and
one instruction chooses from two of them; elsewhere every lane reads memory.
"""

from __future__ import annotations

from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import lanes_of, vector

_WIDE = 64
_BYTES = vector("i8", _WIDE)


def in_registers(host: Host) -> bool:
    """Are there instructions that choose from tables in registers?"""
    return "+avx512vbmi" in host.features.split(",")


def lookup(t: Text, x: Value, table: Value) -> Value:
    lanes = lanes_of(x.type)
    if not lanes:
        return _read(t, x, table)
    if lanes > _WIDE or not in_registers(t.host):
        return _each(t, x, table, lanes)
    wide = x if lanes == _WIDE else t.shuffle(x, None, [min(i, lanes - 1) for i in range(_WIDE)])
    parts = [t.load_type(_BYTES, t.address(table, _WIDE * i), 1) for i in range(4)]
    # The highest bit of a byte says which half of the table it is in; the instruction reads the others.
    low, high = (
        t.intrinsic("x86.avx512.vpermi2var.qi.512", _BYTES, a, wide, b, suffix="")
        for a, b in (parts[:2], parts[2:])
    )
    found = t.select(t.icmp("slt", wide, 0), high, low)
    return found if lanes == _WIDE else t.shuffle(found, None, range(lanes))


def _each(t: Text, x: Value, table: Value, lanes: int) -> Value:
    out = Value("poison", x.type)
    for i in range(lanes):
        out = t.insert(out, _read(t, t.extract(x, i), table), i)
    return out


def _read(t: Text, x: Value, table: Value) -> Value:
    return t.load_type("i8", t.address(table, t.convert("zext", x, "i64")), 1)
