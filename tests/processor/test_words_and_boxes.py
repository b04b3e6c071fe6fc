"""Words of arguments and of scalar operations beside Python's own numbers; boxes of drawings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor.device import Device, argument_word
from trilobite.processor.isa.formats import I8, I16, I32, I64, U8, U16, U32, U64
from trilobite.processor.lang.ir import Constant, Op
from trilobite.processor.lang.scalar import evaluate
from trilobite.processor.machine import load_machine, preset_names
from trilobite.processor.machine.drawing import machine_drawing
from trilobite.processor.tools.commands import machines_show

MASK = (1 << 64) - 1
EDGES = [
    0,
    1,
    2,
    7,
    63,
    64,
    127,
    128,
    255,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    MASK - 1,
    MASK,
]
WHOLE = [I8, I16, I32, I64, U8, U16, U32, U64]


def kept(value: int, fmt: Any) -> int:
    """A number as a register keeps it: modulo the width, extended by the sign of its format."""
    low = value & ((1 << fmt.bits) - 1)
    return (low - (1 << fmt.bits)) & MASK if fmt.kind == "int" and low >> (fmt.bits - 1) else low


def number(word: int, fmt: Any) -> int:
    low = word & ((1 << fmt.bits) - 1)
    return low - (1 << fmt.bits) if fmt.kind == "int" and low >> (fmt.bits - 1) else low


MEANINGS: dict[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "max": max, "min": min,
    "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "rem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b), "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b), "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b),
}  # fmt: skip


@pytest.mark.parametrize("opcode", MEANINGS)
def test_scalar_operations_are_those_of_numbers(opcode: str) -> None:
    rng = np.random.default_rng(len(opcode))
    for fmt in WHOLE:
        words = [kept(e, fmt) for e in EDGES] + [kept(int(v), fmt) for v in rng.integers(0, 1 << 62, 6)]
        decides = opcode in ("lt", "le", "gt", "ge", "eq", "ne")
        op = Op(opcode, (), {"fmt": fmt}, (I64 if decides else fmt,))
        for a in words:
            for b in words:
                if opcode in ("div", "rem") and not number(b, fmt):
                    continue
                want = MEANINGS[opcode](number(a, fmt), number(b, fmt))
                assert evaluate(op, (a, b)) == (want if decides else kept(want, fmt)), (fmt.name, a, b)


def test_pointers_move_both_ways_and_stay_words() -> None:
    op = Op("offset", (), {}, ())
    for a in EDGES:
        for b in EDGES:
            assert evaluate(op, (a, b)) == (a + b) % (1 << 64)
    choice = Op("select", (), {}, ())
    assert [evaluate(choice, (p, 5, 6)) for p in (0, 1, MASK)] == [6, 5, 5]


@pytest.mark.parametrize("source", WHOLE, ids=lambda f: f.name)
def test_casts_are_filled_by_the_sign_of_their_source(source: Any) -> None:
    for target in WHOLE:
        op = Op("cast", [Constant(source, 0)], {"type": target}, (target,))
        for e in EDGES:
            word = kept(e, source)
            assert evaluate(op, (word,)) == kept(number(word, source), target), (source.name, target.name, e)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (0, 0), (5, 5), (-1, MASK), (-(1 << 63), 1 << 63), (MASK, MASK), (True, 1), (np.bool_(True), 1),
        (np.int32(-2), MASK - 1), (np.uint64(MASK), MASK), (1.0, 0x3F800000), (np.float64(-2.0), 0xC0000000),
        (np.float32(0.5), 0x3F000000), (np.float16(1.0), 0x3C00),
    ],
)  # fmt: skip
def test_words_in_which_arguments_travel(value: Any, word: int) -> None:
    assert argument_word(value) == word


def test_what_no_word_holds_is_refused() -> None:
    for value in ("text", np.zeros(3), np.complex128(1j), None):
        with pytest.raises(ArgumentError, match="a kernel cannot take"):
            argument_word(value)
    array = Device("dlp-s").array(np.zeros(3, np.float32))
    assert argument_word(array) == array.address


@pytest.mark.parametrize("name", sorted(preset_names()))
def test_boxes_of_a_drawing_are_closed(name: str) -> None:
    for text in (machine_drawing(load_machine(name)), machines_show(name)):
        lines = text.splitlines()
        rules = [i for i, line in enumerate(lines) if line.startswith("+-")]
        assert rules and len(rules) % 2 == 0
        for first, last in zip(rules[::2], rules[1::2], strict=True):
            inner = lines[first : last + 1]
            assert len({len(line) for line in inner}) == 1 and lines[first] == lines[last]
            assert all(line[0] == line[-1] and line[0] in "+|" for line in inner)
            assert any(line[-3:] != "  |" for line in inner[1:-1])  # no wider than its longest line
