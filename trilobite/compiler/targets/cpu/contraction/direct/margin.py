"""A source with zeros before and after each line of its last axis, for convolutions with few channels; and
sources of narrow floats widened, for all that have several panels of weights.

Enters: dtypes. Leaves: the text of one kernel for every size: a unit copies one line.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.words import Words, read_words
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.emit.types import memory_type
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.types import Dim
from trilobite.native.host import Host


def margin_step(
    host: Host, dtypes: tuple[DType, DType], source: Operand, target: Operand, lines: Dim, line: int,
    low: int, high: int,
) -> Step:  # fmt: skip
    """Copy `lines` lines of `line` elements, each between `low` and `high` zeros, from dtype to dtype."""
    words = Words()
    words.add("x", source)
    words.add("out", target)
    for name, value in (("line", line), ("low", low), ("high", high)):
        words.add(name, value)
    return Step(_kernel(host, *dtypes, tuple(words.names)), tuple(words.contents), lines)


@lru_cache(maxsize=64)
def _kernel(host: Host, dtype: DType, wide: DType, names: tuple[str, ...]) -> NativeKernel:
    t = Text(host)
    w = read_words(t, names)
    whole = t.add(t.add(w["line"], w["low"]), w["high"])
    lanes = host.lanes(wide.itemsize)
    with t.loop(t.begin, t.end, name="line") as unit:
        source = t.address(w["x"], t.mul(unit.index, w["line"]), dtype)
        target = t.address(w["out"], t.mul(unit.index, whole), wide)
        _zero(t, wide, target, w["low"])
        middle = t.address(target, w["low"], wide)
        copy_run(t, (dtype, wide), source, middle, w["line"], lanes)
        _zero(t, wide, t.address(middle, w["line"], wide), w["high"])
    return NativeKernel("conv_margin" if dtype == wide else "conv_widened", t.module())


def _zero(t: Text, dtype: DType, target: Value, count: Value) -> None:
    zero = t.constant(memory_type(dtype), 0)
    with t.loop(0, count, name="zero") as i:
        t.store_type(zero, t.address(target, i.index, dtype))


def copy_run(
    t: Text, dtypes: tuple[DType, DType], source: Value, target: Value, count: Value, lanes: int
) -> None:
    """Whole vectors, then single elements. Of equal dtypes the bits stay as they are."""
    (dtype, wide), whole = dtypes, t.and_(count, -lanes)
    for first, last, step in ((t.constant("i64", 0), whole, lanes), (whole, count, 0)):
        with t.loop(first, last, step or 1, name="copy") as i:
            at, to = t.address(source, i.index, dtype), t.address(target, i.index, wide)
            if dtype == wide:
                t.store_type(t.load_type(memory_type(dtype, step), at), to)
            else:
                t.store(wide, widen(t, t.load(dtype, at, step), dtype, wide), to)
