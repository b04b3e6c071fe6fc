"""Scales and zero points of a quantised operand, as the code that reads it needs them.

Enters: where they begin, and what they run along. Leaves: values for one element or a vector of them. The
meaning is `dequantise`'s: (q - zero)·scale; the difference is exact in float32.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType, float32
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Along
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Side
from trilobite.compiler.targets.cpu.contraction.gemm.words import ProductWords
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class Scales:
    t: Text
    along: Along
    dtype: DType  # of the numbers on the grid, and of zero points
    scales: Value
    zeros: Value

    def moved(self, line: Value, k: Value) -> Scales:
        """The same, counted from another line and k."""
        if self.along == "all":
            return self
        by = line if self.along == "line" else k
        scales, zeros = self.t.address(self.scales, by, float32), self.t.address(self.zeros, by, self.dtype)
        return Scales(self.t, self.along, self.dtype, scales, zeros)

    def scale(self, line: Value, k: Value, lanes: int, running: Along) -> Value:
        """Of `lanes` elements that run along lines or k from this one on."""
        return self._read(self.scales, float32, line, k, lanes, running)

    def zero(self, line: Value, k: Value, lanes: int, running: Along, count: Value | None = None) -> Value:
        """Of the same; of the last vector of k only `count` lanes may exist."""
        found = self._read(self.zeros, self.dtype, line, k, lanes, running, count)
        return widen(self.t, found, self.dtype, float32)

    def several(self, first: Value, lanes: int, count: Value | None) -> Value:
        """Consecutive scales, of which only `count` may exist; where there is one for all, that one."""
        return self._read(self.scales, float32, first, first, lanes, self.along, count)

    def _read(
        self, base: Value, dtype: DType, line: Value, k: Value, lanes: int, running: Along,
        count: Value | None = None,
    ) -> Value:  # fmt: skip
        t = self.t
        index = {"all": t.constant("i64", 0), "line": line, "k": k}[self.along]
        at = t.address(base, index, dtype)
        if self.along == "all" or self.along != running or not lanes:
            return t.load_splat(dtype, at, lanes)
        return t.load_partial(dtype, at, count, lanes)


def scales_of(t: Text, side: Side, w: ProductWords[Value]) -> Scales | None:
    """Those of a product's second operand, if it is quantised."""
    if side.grid is None or w.scale is None or w.zero is None:
        return None
    return Scales(t, side.along, side.dtype, w.scale, w.zero)
