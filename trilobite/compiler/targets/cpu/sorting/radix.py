"""Sorting words by their upper halves, stably: an internal function of a sorting kernel.

Enters: a `Text`. Leaves: `arrange(words, spare, n, bytes, places) -> ptr`, which sorts n 64-bit words by the
lowest `bytes` bytes of their upper half and says which of the two buffers they are in. Words go byte by byte
into 256 places; a byte that all words share is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.base.dtypes import int64
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, vector

ROOM = 256 * 8  # bytes of the places
_PARAMETERS = ("ptr noalias", "ptr noalias", "i64", "i64", "ptr noalias")


def emit_arrange(t: Text) -> None:
    with t.function("arrange", _PARAMETERS, result="ptr") as (words, spare, n, count, places):
        with t.loop(0, count, carried=[words, spare], name="byte") as byte:
            shift = t.add(t.mul(byte.index, 8), 32)
            byte.next(*_by_byte(t, byte.values[0], byte.values[1], n, shift, places))
        t.give_back(byte.results[0])


def count_values(t: Text, value: Callable[[Value], Value], n: Value, counts: Value, below: int) -> None:
    """How often each number occurs as the value of a place below n; all values are below `below`."""
    lanes = t.host.lanes(8)
    with t.loop(0, below, lanes, name="clear") as i:
        t.store_type(constant(vector("i64", lanes), 0), _at(t, counts, i.index), 8)
    with t.loop(0, n, name="count") as i:
        at = _at(t, counts, value(i.index))
        t.store_type(t.add(t.load_type("i64", at), 1), at)


def _at(t: Text, words: Value, i: Value) -> Value:
    return t.address(words, i, int64)


def _by_byte(t: Text, words: Value, spare: Value, n: Value, shift: Value, places: Value) -> list[Value]:
    """One byte: how often each value occurs, where its words begin, every word to its place."""

    def digit(word: Value) -> Value:
        return t.and_(t.lshr(word, shift), 255)

    count_values(t, lambda i: digit(t.load_type("i64", _at(t, words, i))), n, places, 256)
    first = t.load_type("i64", _at(t, places, digit(t.load_type("i64", words))))

    def scattered() -> list[Value]:
        with t.loop(0, 256, carried=[t.constant("i64", 0)], name="begin") as i:
            at = _at(t, places, i.index)
            mine = t.load_type("i64", at)
            t.store_type(i.values[0], at)
            i.next(t.add(i.values[0], mine))
        with t.loop(0, n, name="place") as i:
            word = t.load_type("i64", _at(t, words, i.index))
            at = _at(t, places, digit(word))
            place = t.load_type("i64", at)
            t.store_type(t.add(place, 1), at)
            t.store_type(word, _at(t, spare, place))
        return [spare, words]

    return t.either(t.icmp("eq", first, n), lambda: [words, spare], scattered)
