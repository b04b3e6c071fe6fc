"""The kernel that copies bytes: carries of loops, and results that are values the program already has."""

from __future__ import annotations

from trilobite.compiler.program.plan_control import BLOCK
from trilobite.compiler.targets.cpu.kernel import NativeKernel

__all__ = ["BLOCK", "COPY"]

COPY = NativeKernel(
    "copy",
    f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smin.i64(i64, i64)
define void @entry(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
  %to = load ptr, ptr %args
  %from_word = getelementptr i64, ptr %args, i64 1
  %from = load ptr, ptr %from_word
  %size_word = getelementptr i64, ptr %args, i64 2
  %size = load i64, ptr %size_word
  %low = mul i64 %begin, {BLOCK}
  %full = mul i64 %end, {BLOCK}
  %high = call i64 @llvm.smin.i64(i64 %full, i64 %size)
  %count = sub i64 %high, %low
  %target = getelementptr i8, ptr %to, i64 %low
  %source = getelementptr i8, ptr %from, i64 %low
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %count, i1 false)
  ret void
}}
""",
)
"""Words: to, from, bytes. One unit per 64 KiB, and at least one."""
