"""A lane of bytes sorted alone: how often each value occurs says all there is to write.

Enters: a `Text`, the addresses of a lane and of its result. Leaves: the code. It is for integers and bools,
whose equal keys are equal bits, where nothing else goes with them.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType, bool_, int8, int64, uint8
from trilobite.compiler.targets.cpu.sorting.radix import count_values
from trilobite.native.llvm.text import Text, Value

BYTES = (int8, uint8, bool_)
ROOM = 256 * 8  # bytes of the counts


def emit_bytes(
    t: Text, dtype: DType, source: Value, target: Value, n: Value, apart: Value, counts: Value
) -> None:
    """`n` bytes, `apart` from each other in both."""
    turned = 128 if dtype == int8 else 0

    def value_at(i: Value) -> Value:
        found = t.load_type("i8", t.address(source, t.mul(i, apart)))
        return t.xor(t.convert("zext", found, "i64"), turned)

    count_values(t, value_at, n, counts, 256)
    with t.loop(0, 256, carried=[t.constant("i64", 0)], name="value") as value:
        begin = value.values[0]
        end = t.add(begin, t.load_type("i64", t.address(counts, value.index, int64)))
        byte = t.convert("trunc", t.xor(value.index, turned), "i8")
        t.either(
            t.icmp("eq", apart, 1),
            lambda: _run(t, byte, target, begin, end, n),
            lambda: _each(t, byte, target, begin, end, apart),
        )
        value.next(end)


def _run(t: Text, byte: Value, target: Value, begin: Value, end: Value, n: Value) -> None:
    """Side by side: whole vectors, beyond the run too, where later values will be."""
    lanes = t.host.vector_bytes
    wide = t.splat(byte, lanes)
    room = t.smin(end, t.add(t.sub(n, lanes), 1))
    with t.loop(begin, room, lanes, name="vector") as i:
        t.store_type(wide, t.address(target, i.index), 1)
    done = t.add(begin, t.mul(t.ceil_div(t.smax(t.sub(room, begin), 0), lanes), lanes))
    _each(t, byte, target, done, end, t.constant("i64", 1))


def _each(t: Text, byte: Value, target: Value, begin: Value, end: Value, apart: Value) -> None:
    with t.loop(begin, end, name="byte") as i:
        t.store_type(byte, t.address(target, t.mul(i.index, apart)))
