"""RV as a routine: the next numbers of the core's stream, Philox 4x32 with ten rounds.

Enters: an instruction. Leaves: the text of its routine. Seed and number of the next block lie where scalars
do; the routine moves the block on.
"""

from __future__ import annotations

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import F16, F32, F64, Format
from trilobite.processor.isa.random import MULTIPLIERS, ROUNDS, WEYL
from trilobite.processor.sim.routines.elements import is_handy, read
from trilobite.processor.sim.routines.text import Code, Value

LOW = 0xFFFFFFFF


def _upper(value: Value) -> Value:
    return value.code.new("i64", f"lshr i64 {value.name}, 32")


def _block(seed: Value, number: Value) -> list[Value]:
    """The four words of a block, each in 64 bits."""
    zero = number.code.constant("i64", 0)
    c, key = [number & LOW, _upper(number), zero, zero], [seed & LOW, _upper(seed)]
    for _ in range(ROUNDS):
        first, second = c[0] * MULTIPLIERS[0], c[2] * MULTIPLIERS[1]
        c = [_upper(second) ^ c[1] ^ key[0], second & LOW, _upper(first) ^ c[3] ^ key[1], first & LOW]
        key = [(word + step) & LOW for word, step in zip(key, WEYL, strict=True)]
    return c


def _bits(fmt: Format, single: Value) -> Value:
    """A float32 of [0, 1) in the format, rounded to zero."""
    if fmt is F64:
        return single.cast("fpext", "double")
    if fmt is F32:
        return single
    if fmt is F16:
        near = single.cast("fptrunc", "half")
        is_above = near.cast("fpext", "float").test("ogt", single)
        bits = near.cast("bitcast", "i16")
        return is_above.choose(bits - 1, bits)
    return (single.cast("bitcast", "i32") >> 16).cast("trunc", "i16")


def random_text(instruction: Instruction) -> str | None:
    fmt = instruction.formats[0]
    if not is_handy(fmt):
        return None
    code = Code()
    target, scalars, n = code.operand(0), code.argument("scalars"), code.argument("n")
    seed, first = code.load("i64", scalars, 0), code.load("i64", scalars, 1)
    blocks = (n + 3) >> 2
    scratch = code.argument("scratch")
    with code.loop(blocks, is_parallel=True) as block:
        for place, word in enumerate(_block(seed, first + block)):
            value = (word >> 8).cast("trunc", "i32").cast("uitofp", "float") * 2.0**-24
            code.store(scratch, block * 4 + place, value)
    with code.loop(n, is_parallel=True) as i:
        code.store(target, i, _bits(fmt, read(code, F32, scratch, i)))
    code.store(scalars, 1, first + blocks)
    return code.text()
