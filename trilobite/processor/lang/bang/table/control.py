"""Synchronisation, atomics, traps, the core's own facts, scalar library functions."""

# ruff: noqa: E501, UP031, PERF401 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

from dataclasses import replace

from trilobite.processor.lang.bang.table.row import Intrinsic, form

_SYNC = """
__sync=sync: waits for everything this core started; __sync_io=sync.io: waits for off-chip copies;
__sync_move=sync.move: waits for on-chip copies; __sync_compute=sync.matrix.vector: waits for compute;
__sync_copy=sync.io.move: waits for copies; __sync_cluster=barrier.cluster: all cores of the cluster with the memory core;
__sync_all=barrier.chip: all cores of the task; __sync_all_ipu=barrier.chip.ipu: all compute cores of the task;
__sync_all_mpu=barrier.chip.mpu: all memory cores; __sync_all_ipu_within_cluster=barrier.cluster.ipu: the cluster's compute cores;
__sync_io_move_compute=sync: all queues
"""
_OLD_COPIES = (
    "nram_to_nram nram_to_dram dram_to_nram wram_to_dram dram_to_wram sram_to_dram dram_to_sram nram_to_sram "
    "sram_to_nram wram_to_sram sram_to_wram sram_to_sram"
)
_WIDE = ("i32", "u32", "f32", "i64", "u64")
_SHORT = ("f16", "bf16", "i16", "u16")


def _syncs() -> list[Intrinsic]:
    made = []
    for entry in _SYNC.split(";"):
        left, line = entry.strip().split(":", 1)
        name, how = left.split("=")
        made.append(form(name, "", (), f"@{how}", line.strip(), space=""))
    made += [
        form(f"__sync_copy_{ends}", "", (), "@sync.io.move", "waits for copies", space="")
        for ends in _OLD_COPIES.split()
    ]
    flags = "io0? move0? compute0? io1? move1? compute1?"
    made.append(form("__sync_io_move_compute", flags, (), "@sync", "all queues", space=""))
    return made


_OPERATIONS = ("add", "exch", "and", "or", "xor", "max", "min", "inc", "dec")
_NARROW_STEP = {
    "add": "__old + value", "exch": "value", "and": "(T)((long)__old & (long)value)", "or": "(T)((long)__old | (long)value)",
    "xor": "(T)((long)__old ^ (long)value)", "max": "__old > value ? __old : value", "min": "__old < value ? __old : value",
    "inc": "(T)(__old >= value ? 0 : __old + 1)", "dec": "(T)(__old == 0 || __old > value ? value : __old - 1)",
}  # fmt: skip


def _atomics() -> list[Intrinsic]:
    made = []
    for op in _OPERATIONS:
        made.append(form(f"__dlp_atomic_{op}", "p&T value=T", ("i32", "u32", "i64", "u64") if op in ("and", "or", "xor", "inc", "dec") else _WIDE,
                         f"@atomic.{op}", "the old element", returns="T", space="gdram"))  # fmt: skip
        narrow = ("i16", "u16") if op in ("and", "or", "xor", "inc", "dec") else _SHORT
        body = (
            "{ while (1) { T __old = *p; T __new = %s; if (__dlp_cas_narrow(p, __old, __new)) return __old; } }"
            % _NARROW_STEP[op]
        )
        for kind in narrow:
            made.append(form(f"__dlp_atomic_{op}", f"p&{kind} value={kind}", (), body.replace("T ", _c(kind) + " ").replace("(T)", f"({_c(kind)})"),
                             "the old element", returns=kind, space="gdram"))  # fmt: skip
        types = (
            ("i32", "u32", "i64", "u64", "i16", "u16")
            if op in ("and", "or", "xor", "inc", "dec")
            else (*_WIDE, *_SHORT)
        )
        each = f"{{ for (long __i = 0; __i < n; ++__i) dst[__i] = __dlp_atomic_{op}(src1 + __i, VALUE); }}"
        made.append(
            form(
                f"__bang_atomic_{op}",
                "dst>T src1&T value=T",
                types,
                f"{{ *dst = __dlp_atomic_{op}(src1, value); }}",
                "dst = the old element",
                space="dst nram, src1 gdram",
            )
        )
        made.append(
            form(
                f"__bang_atomic_{op}",
                "dst>T src1&T value=T n#",
                types,
                each.replace("VALUE", "value"),
                "dst = the old elements",
                space="dst nram, src1 gdram",
            )
        )
        made.append(
            form(
                f"__bang_atomic_{op}",
                "dst>T src1&T src2<T n#",
                types,
                each.replace("VALUE", "src2[__i]"),
                "dst = the old elements",
                space="dst nram, src1 gdram",
            )
        )
        plain = f"{{ for (long __i = 0; __i < n; ++__i) __dlp_atomic_{op}(dst + __i, VALUE); }}"
        made.append(
            form(
                f"__bang_atomic_reduce_{op}",
                "dst&T value=T",
                types,
                f"{{ __dlp_atomic_{op}(dst, value); }}",
                "dst op value",
                space="gdram",
            )
        )
        made.append(
            form(
                f"__bang_atomic_reduce_{op}",
                "dst&T value=T n#",
                types,
                plain.replace("VALUE", "value"),
                "dst[i] op value",
                space="gdram",
            )
        )
        made.append(
            form(
                f"__bang_atomic_reduce_{op}",
                "dst&T src<T n# n1: n2: dst_stride0: dst_stride1: src_stride0: src_stride1:",
                types,
                f"{{ for (long __i = 0; __i < (n1 + 1) * (n2 + 1); ++__i) __bang_atomic_reduce_{op}("
                "(T *)((char *)dst + __i % (n1 + 1) * dst_stride0 + __i / (n1 + 1) * dst_stride1), "
                "(const T *)((const char *)src + __i % (n1 + 1) * src_stride0 + __i / (n1 + 1) * src_stride1), n); }",
                "(n1 + 1)(n2 + 1) pieces of n elements, strides in bytes",
                space="dst gdram, src nram",
            )
        )
        made.append(
            form(
                f"__bang_atomic_reduce_{op}",
                "dst&T src<T n#",
                types,
                plain.replace("VALUE", "src[__i]"),
                "dst[i] op src[i]",
                space="dst gdram, src nram",
            )
        )
    made.append(
        form(
            "__dlp_cas",
            "p&T expected=T value=T",
            ("i32", "i64", "i16"),
            "@cas",
            "the old element",
            returns="T",
            space="gdram",
        )
    )
    made.append(
        form(
            "__bang_atomic_cas",
            "dst>T src1&T expected=T value=T",
            ("i32",),
            "{ *dst = __dlp_cas(src1, expected, value); }",
            "dst = the old element",
            space="dst nram, src1 gdram",
        )
    )
    made.append(
        form(
            "__bang_atomic_reduce_cas",
            "dst&T expected=T value=T",
            ("i32",),
            "{ __dlp_cas(dst, expected, value); }",
            "becomes value if it was expected",
            space="gdram",
        )
    )
    # What runs beside the core there is done at once here, so that every order holds.
    made += [
        replace(row, name=f"{row.name}_async", line=f"{row.line}; done at once")
        for row in made
        if row.name.startswith("__bang_atomic_reduce_")
    ]
    return made


def _c(kind: str) -> str:
    return {"f16": "half", "bf16": "bfloat16_t", "i16": "short", "u16": "unsigned short"}[kind]


_COUNTERS = (
    "cache_miss compute_alu_low compute_alu_high compute_wfu_low compute_wfu_high compute_nfu_low compute_nfu_high "
    "memory_dram_read_low memory_dram_read_high memory_dram_write_low memory_dram_write_high memory_sram_read_low "
    "memory_sram_read_high memory_sram_write_low memory_sram_write_high memory_broadcast_low memory_broadcast_high"
)

INTRINSICS = (
    *_syncs(),
    *_atomics(),
    form("__abort", "", (), "@trap", "stops the launch", space=""),
    form("__is_mpu", "", (), "@special.isMpu", "whether this is the memory core", returns="bool", space=""),
    form("__is_ipu", "", (), "{ return !__is_mpu(); }", "whether this is a compute core", returns="bool", space=""),
    form("__is_nram", "p<void", (), "{ return ((unsigned long)p >> 56) == 2; }", "whether it points to NRAM", returns="bool", space="any"),
    form("__is_wram", "p<void", (), "{ return ((unsigned long)p >> 56) == 3; }", "whether it points to WRAM", returns="bool", space="any"),
    form("__is_sram", "p<void", (), "{ return ((unsigned long)p >> 56) == 4; }", "whether it points to SRAM", returns="bool", space="any"),
    form("__is_dram", "p<void", (), "{ return ((unsigned long)p >> 56) < 2; }", "whether it points off chip", returns="bool", space="any"),
    form("__dlp_clock", "", (), "@clock", "instructions this core has executed", returns="u64", space=""),
    *(form(f"__bang_perf_{name}", "", (), "{ return 0; }", "not counted here: 0", returns="u32", space="") for name in _COUNTERS.split()),
    form("__popcnt", "x=u32", (), "{ return __builtin_popcount(x); }", "set bits of a number", returns="u32", space=""),
    form("__bang_perf_executed_inst", "", (), "@clock", "instructions this core has executed", returns="u64", space=""),
    *(form(f"__cn_scalar_{name}_{kind}", f"x={kind}", (), "{ return (%s)__builtin_%s((float)x); }" % ({"f32": "float", "f16": "half"}[kind], builtin), line, returns=kind, space="")
      for name, builtin, line in (("sin", "sinf", "sine"), ("cos", "cosf", "cosine"), ("sqrt", "sqrtf", "square root"), ("exp", "expf", "e^x"), ("log", "logf", "ln x"))
      for kind in ("f32", "f16")),
    *(form(f"__cn_scalar_{name}_f32", "a=f32 b=f32", (), "{ return a %s b ? a : b; }" % op, name, returns="f32", space="") for name, op in (("max", ">"), ("min", "<"))),
)  # fmt: skip
