"""Vector registers (`vv_float` and its kin): 256 bytes of NRAM each, worked on lane by lane.

The parts that have them are newer than the presets; public kernels name them for every part. A register that
a source declares is a buffer in NRAM, so every operation on it is a vector instruction.
"""

# ruff: noqa: E501 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

from trilobite.processor.lang.bang.table.row import Intrinsic, form

_LANES = "T::count"


def _two(name: str, line: str, vector: str, scalar: str) -> list[Intrinsic]:
    """The second operand is a register or one number."""
    return [
        form(name, "out@T a@T b@T", (), f"{{ {vector} }}", line, space=""),
        form(name, "out@T a@T b=lane", (), f"{{ {scalar} }}", line, space=""),
    ]


def _rows(name: str, of: str, line: str) -> list[Intrinsic]:
    vector = f"__bang_{of}(out.lanes, a.lanes, b.lanes, {_LANES});"
    scalar = f"__bang_{of}_scalar(out.lanes, a.lanes, b, {_LANES});"
    return _two(name, line, vector, scalar)


_HIGH = (
    f"for (long __i = 0; __i < {_LANES}; ++__i) out.lanes[__i] = (typename T::element)("
    "(unsigned long)a.lanes[__i] * (unsigned long)VALUE >> 8 * sizeof(typename T::element));"
)

INTRINSICS = (
    form("__vv_get_length", "", (), "{ return 256; }", "bytes of a register", returns="i32", space=""),
    form("__vv_move", "out@T value=lane", (), f"{{ __bang_write_value((void *)out.lanes, {_LANES}, value); }}", "every lane the value", space=""),
    form("__vv_move", "out@T a@T", (), "{ out = a; }", "a copy", space=""),
    form("__vv_index", "out@T start=lane step=lane", (), f"{{ __bang_incseq(out.lanes, {_LANES}, start, step); }}", "start + i step", space=""),
    form("__vv_store", "p>void a@T", (), "{ __memcpy(p, a.lanes, 256, NRAM2NRAM); }", "all lanes to NRAM", space="nram"),
    form("__vv_store", "p>void a@T n#", (), "{ __memcpy(p, a.lanes, n * sizeof(typename T::element), NRAM2NRAM); }", "n lanes to NRAM", space="nram"),
    form("__vv_load", "out@T p<void", (), "{ __memcpy(out.lanes, p, 256, NRAM2NRAM); }", "all lanes from NRAM", space="nram"),
    form("__vv_load", "out@T p<void n#", (), "{ __memcpy(out.lanes, p, n * sizeof(typename T::element), NRAM2NRAM); }", "n lanes from NRAM", space="nram"),
    *_rows("__vv_add", "add", "a + b"),
    *_rows("__vv_sub", "sub", "a - b"),
    *_rows("__vv_mul", "mul", "the low part of a b"),
    *_two("__vv_mulh", "the high part of a b, unsigned", _HIGH.replace("VALUE", "b.lanes[__i]"), _HIGH.replace("VALUE", "b")),
    *_two("__vv_xor", "bits of one", f"__bang_bxor(out.lanes, a.lanes, b.lanes, {_LANES});", f"__bang_bxor_scalar(out.lanes, a.lanes, b, {_LANES});"),
    form("__vv_trixor", "out@T a@T b@T c@T", (), "{ __vv_xor(out, a, b); __vv_xor(out, out, c); }", "bits of an odd number of the three; out is not c", space=""),
)  # fmt: skip
