"""Which elements of a long lane can be among the first few: an internal function of a kernel of `top_k`.

Enters: a `Text`, and how a lane's keys are read. Leaves: words with the places of the candidates, in their
order, and how many there are. Keys are counted by their first bits; a candidate's are not behind those that
the last of the wanted has. All of a lane of equal first bits are candidates: sorting decides, as without.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.base.dtypes import int64
from trilobite.compiler.targets.cpu.sorting.radix import count_values
from trilobite.native.llvm.text import Text, Value

BITS = 11  # of a float: sign, exponent and two of the mantissa
ROOM = 8 << BITS  # bytes of the counts


FEW = 4  # one of so many wanted, or fewer: else it is quicker to sort all


def emit_candidates(
    t: Text, first_bits: Callable[[Value], Value], n: Value, wanted: Value, words: Value
) -> Value:
    """`first_bits` of a place is a number below 1 << BITS that rises with its key."""

    def everything() -> list[Value]:
        with t.loop(0, n, name="place") as i:
            t.store_type(i.index, t.address(words, i.index, int64))
        return [n]

    few = t.icmp("sle", t.mul(wanted, FEW), n)
    (found,) = t.either(few, lambda: [_candidates(t, first_bits, n, wanted, words)], everything)
    return found


def _candidates(
    t: Text, first_bits: Callable[[Value], Value], n: Value, wanted: Value, words: Value
) -> Value:
    counts = t.scratch
    count_values(t, first_bits, n, counts, 1 << BITS)
    nothing = t.constant("i64", 0)
    with t.loop(0, 1 << BITS, carried=[nothing, nothing], name="reach") as i:
        passed, last = i.values
        last = t.select(t.icmp("slt", passed, wanted), i.index, last)
        i.next(t.add(passed, t.load_type("i64", t.address(counts, i.index, int64))), last)
    last = i.results[1]
    with t.loop(0, n, carried=[nothing], name="candidate") as i:
        (found,) = i.values
        t.store_type(i.index, t.address(words, found, int64))
        i.next(t.add(found, t.convert("zext", t.icmp("sle", first_bits(i.index), last), "i64")))
    return i.results[0]
