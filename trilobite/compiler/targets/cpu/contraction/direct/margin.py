"""A source with zeros before and after each line of its last axis, for convolutions with few channels; and
sources of narrow floats widened, for all that have several panels of weights.

Enters: dtypes. Leaves: the text of one kernel for every size: a unit copies one line.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.runs import copy_run, zero_run
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.types import Dim
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class _Words(Words[W]):
    x: W
    out: W
    line: W
    low: W
    high: W


def margin_step(
    host: Host, dtypes: tuple[DType, DType], source: Operand, target: Operand, lines: Dim, line: int,
    low: int, high: int,
) -> Step:  # fmt: skip
    """Copy `lines` lines of `line` elements, each between `low` and `high` zeros, from dtype to dtype."""
    words: _Words[Content] = _Words(source, target, line, low, high)
    return Step(_kernel(host, *dtypes, forms(words)), contents(words), lines)


@lru_cache(maxsize=64)
def _kernel(host: Host, dtype: DType, wide: DType, words: _Words[Form]) -> NativeKernel:
    t = Text(host)
    w: _Words[Value] = read(t, words)
    whole = t.add(t.add(w.line, w.low), w.high)
    lanes = host.lanes(wide.itemsize)
    with t.loop(t.begin, t.end, name="line") as unit:
        source = t.address(w.x, t.mul(unit.index, w.line), dtype)
        target = t.address(w.out, t.mul(unit.index, whole), wide)
        zero_run(t, wide, target, w.low)
        middle = t.address(target, w.low, wide)
        copy_run(t, (dtype, wide), source, middle, w.line, lanes)
        zero_run(t, wide, t.address(middle, w.line, wide), w.high)
    return NativeKernel("conv_margin" if dtype == wide else "conv_widened", t.module())
