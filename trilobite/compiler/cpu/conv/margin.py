"""A source with zeros before and after each line of its last axis, for convolutions with few channels.

Enters: dtype. Leaves: the text of one kernel for every size: a unit copies one line.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType
from trilobite.compiler.cpu.conv.words import Words, read_words
from trilobite.compiler.cpu.emit.text import Text, Value
from trilobite.compiler.cpu.emit.types import memory_type
from trilobite.compiler.kernels import Kernel, Operand, Step
from trilobite.ir.types import Dim
from trilobite.native.host import Host


def margin_step(
    host: Host, dtype: DType, source: Operand, target: Operand, lines: Dim, line: int, low: int, high: int
) -> Step:
    """Copy `lines` lines of `line` elements, each between `low` and `high` zeros."""
    words = Words()
    words.add("x", source)
    words.add("out", target)
    for name, value in (("line", line), ("low", low), ("high", high)):
        words.add(name, value)
    return Step(_kernel(host, dtype, tuple(words.names)), tuple(words.contents), lines)


@lru_cache(maxsize=64)
def _kernel(host: Host, dtype: DType, names: tuple[str, ...]) -> Kernel:
    t = Text(host)
    w = read_words(t, names)
    whole = t.add(t.add(w["line"], w["low"]), w["high"])
    lanes = host.lanes(dtype.itemsize)
    with t.loop(t.begin, t.end, name="line") as unit:
        source = t.address(w["x"], t.mul(unit.index, w["line"]), dtype)
        target = t.address(w["out"], t.mul(unit.index, whole), dtype)
        _zero(t, dtype, target, w["low"])
        middle = t.address(target, w["low"], dtype)
        _copy(t, dtype, source, middle, w["line"], lanes)
        _zero(t, dtype, t.address(middle, w["line"], dtype), w["high"])
    return Kernel("conv_margin", t.module())


def _zero(t: Text, dtype: DType, target: Value, count: Value) -> None:
    zero = t.constant(memory_type(dtype), 0)
    with t.loop(0, count, name="zero") as i:
        t.store_type(zero, t.address(target, i.index, dtype))


def _copy(t: Text, dtype: DType, source: Value, target: Value, count: Value, lanes: int) -> None:
    """Bits as they are; whole vectors, then single elements."""
    whole = t.and_(count, -lanes)
    for first, last, step, type in (
        (t.constant("i64", 0), whole, lanes, memory_type(dtype, lanes)),
        (whole, count, 1, memory_type(dtype)),
    ):
        with t.loop(first, last, step, name="copy") as i:
            value = t.load_type(type, t.address(source, i.index, dtype))
            t.store_type(value, t.address(target, i.index, dtype))
