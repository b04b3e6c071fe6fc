"""Copies, fills, moves, gathers: what carries bytes. Counts are bytes unless a row says elements."""

# ruff: noqa: E501 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

from trilobite.processor.lang.bang.table.row import NUMBERS, Intrinsic, form

_STRIDED = "dst_stride: src_stride: segments:"
_CUBE = "dst_stride0: dst_n1: dst_stride1: dst_n2: src_stride0: src_n1: src_stride1: src_n2:"
_CUBE_BODY = """{
    if (dst_n1 == src_n1 && dst_n2 == src_n2) {
        __dlp_copy3NAME(dst, src, n, direction, dst_stride0, src_stride0, dst_n1 + 1, dst_stride1, src_stride1, dst_n2 + 1);
        return;
    }
    for (long __i = 0; __i < (dst_n1 + 1) * (dst_n2 + 1); ++__i)
        __memcpyNAME((char *)dst + __i / (dst_n1 + 1) * dst_stride1 + __i % (dst_n1 + 1) * dst_stride0,
                     (const char *)src + __i / (src_n1 + 1) * src_stride1 + __i % (src_n1 + 1) * src_stride0, n, direction);
}"""
_CLUSTER_BODY = "{ __memcpyNAME(__dlp_in_cluster(dst, cluster), src, n, directionREST); }"
_GATHER = """{
    for (long __i = 0; __i < count; ++__i)
        __memcpyNAME((char *)dst + __i * stride, (const char *)src + offset[__i], n, direction);
}"""
_SCATTER = """{
    for (long __i = 0; __i < count; ++__i)
        __memcpyNAME((char *)dst + offset[__i], (const char *)src + __i * stride, n, direction);
}"""
_MASKED = "if (((const unsigned char *)mask)[__i >> 3] >> (__i & 7) & 1)\n            "


def _passed(parameters: str) -> str:
    """These parameters as further arguments of a call."""
    return "".join(f", {word.rstrip(':')}" for word in parameters.split())


def _copies(suffix: str) -> list[Intrinsic]:
    name, late = f"__memcpy{suffix}", ".async" if suffix else ""
    head = "dst>void src<void n% direction?"
    gather = "dst>void src<void offset<u32 n% direction? stride: count:"
    masked = "dst>void src<void offset<u32 mask<void n% direction? stride: count:"
    word = "queued, a sync waits for it" if suffix else "blocking"
    return [
        form(name, head, (), f"@copy{late}", f"n bytes, {word}", space="any"),
        form(name, f"{head} {_STRIDED}", (), f"@copy2{late}", f"segments + 1 pieces of n bytes, {word}", space="any"),
        form(f"__dlp_copy3{suffix}", f"{head} d0: s0: c0: d1: s1: c1:", (), f"@copy3{late}", "c1 groups of c0 pieces", space="any"),
        form(name, f"{head} {_CUBE}", (), _CUBE_BODY.replace("NAME", suffix), f"two levels of strides, {word}", space="any"),
        *(form(name, f"{head} {strides} cluster:", (), _CLUSTER_BODY.replace("NAME", suffix).replace("REST", _passed(strides)),
               "into the SRAM of another cluster", space="any") for strides in ("", _STRIDED, _CUBE)),
        form(f"__gather{suffix}", gather, (), _GATHER.replace("NAME", suffix), "piece i from src + offset[i]", space="any"),
        form(f"__gather{suffix}", masked, (), _GATHER.replace("__memcpyNAME", _MASKED + "__memcpy" + suffix), "pieces whose bit is set", space="any"),
        form(f"__scatter{suffix}", gather, (), _SCATTER.replace("NAME", suffix), "piece i to dst + offset[i]", space="any"),
        form(f"__scatter{suffix}", masked, (), _SCATTER.replace("__memcpyNAME", _MASKED + "__memcpy" + suffix), "pieces whose bit is set", space="any"),
    ]  # fmt: skip


_VALUES = (*NUMBERS, "f64")
_FILL2 = """{
    for (long __j = 0; __j <= n2; ++__j)
        for (long __i = 0; __i <= n1; ++__i)
            NAME((void *)((char *)dst + __i * stride0 + __j * stride1), n, value);
}"""


def _fills() -> list[Intrinsic]:
    made = []
    for name, space in (("__bang_write_value", "nram"), ("__nramset", "nram"), ("__memset_nram", "nram"),
                        ("__gdramset", "gdram"), ("__sramset", "sram"), ("__ldramset", "ldram"),
                        ("__wramset", "wram")):  # fmt: skip
        how = "@fill" if space == "nram" else "@fill_any"
        made.append(
            form(name, "dst>void n# value=T", _VALUES, how, "n elements of the value's own type", space=space)
        )
        made.append(form(name, "dst>void n# value=T stride0: n1: stride1: n2:", _VALUES, _FILL2.replace("NAME", name),
                         "(n1 + 1)(n2 + 1) pieces of n elements", space=space))  # fmt: skip
    for suffix, kind in (("half", "f16"), ("float", "f32"), ("int", "i32"), ("short", "i16"),
                         ("unsigned_int", "u32"), ("unsigned_short", "u16")):  # fmt: skip
        made.append(
            form(f"__nramset_{suffix}", f"dst>{kind} n# value={kind}", (), f"VSET:{kind} dst n value", "fill")
        )
    made.append(
        form("__nramset_async", "dst>void n# value=T a: b:", _VALUES, "@fill", "n elements of the value")
    )
    made.append(form("__bang_write_zero", "dst>T n#", (*NUMBERS, "f64"), "VSET dst n 0", "n zeros"))
    return made


_OLD = (("nram", "nram"), ("nram", "dram"), ("dram", "nram"), ("wram", "dram"), ("dram", "wram"), ("sram", "dram"),
        ("dram", "sram"), ("nram", "sram"), ("sram", "nram"), ("wram", "sram"), ("sram", "wram"), ("sram", "sram"),
        ("nram", "wram"))  # fmt: skip


def _old_names() -> list[Intrinsic]:
    made = []
    for source, target in _OLD:
        for suffix in ("", "_async"):
            how, how2 = (f"@copy{'.async' if suffix else ''}", f"@copy2{'.async' if suffix else ''}")
            name = f"__memcpy{suffix}_{source}_to_{target}"
            made.append(form(name, "dst>void src<void n%", (), how, "n bytes", space="any"))
            made.append(
                form(name, f"dst>void src<void n% {_STRIDED}", (), how2, "segments + 1 pieces", space="any")
            )
    return made


INTRINSICS = (
    *_copies(""),
    *_copies("_async"),
    *_fills(),
    *_old_names(),
    form("__bang_move", "dst>void src<void n%", (), "@copy", "n bytes within NRAM"),
    form("__bang_move", f"dst>void src<void n% {_STRIDED}", (), "@copy2", "segments + 1 pieces within NRAM"),
    form("__bang_move", f"dst>void src<void n% {_CUBE}", (),
         _CUBE_BODY.replace("NAME", "").replace("n, direction", "n, NRAM2NRAM"), "two levels of strides"),
    form("__bang_gather_async", "dst>void src<void offset<u32 mask<void n% stride: count:", (),
         _GATHER.replace("__memcpyNAME", _MASKED + "__memcpy_async").replace("direction", "GDRAM2NRAM"),
         "masked gather from GDRAM", space="any"),
    form("__extension", "dst>void src<void index<u8 n% direction? count:", (),
         "{ long __at = 0; for (long __i = 0; __i < count; ++__i) { if (index[__i] == 0) continue; "
         "__memcpy((char *)dst + __at, (const char *)src + n * __i, n, direction, n, 0, index[__i] - 1); "
         "__at += n * index[__i]; } }", "piece i of n bytes, index[i] times (assumed)"),
    form("__bang_lock", "a: b:", (), "@nothing", "bus arbitration: no effect on values", space=""),
    form("__bang_unlock", "a: b:", (), "@nothing", "bus arbitration: no effect on values", space=""),
    *(form(f"__load_{s}", "p<T", NUMBERS, "{ return *p; }", "a scalar", returns="T", space=s)
      for s in ("nram", "gdram", "sram", "wram", "ldram")),
    *(form(f"__store_{s}", "p>T v=T", NUMBERS, "{ *p = v; }", "a scalar", space=s)
      for s in ("nram", "gdram", "sram", "wram", "ldram")),
)  # fmt: skip
