"""Kernels that several tests use."""

from __future__ import annotations

LOOP = """define void @entry(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
start:
{loads}
  br label %head
head:
  %i = phi i64 [ %begin, %start ], [ %i1, %body ]
  %some = icmp slt i64 %i, %end
  br i1 %some, label %body, label %done
body:
{body}
  %i1 = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""


def loop(body: str, arguments: int) -> str:
    """A kernel that runs `body` for each unit %i, with its arguments as %a0, %a1, ... (addresses)."""
    loads = "\n".join(
        f"  %w{k} = getelementptr ptr, ptr %args, i64 {k}\n  %a{k} = load ptr, ptr %w{k}"
        for k in range(arguments)
    )
    return LOOP.format(loads=loads, body=body)


# y[i] = 2 x[i] + 1
AFFINE = loop(
    """  %xp = getelementptr float, ptr %a0, i64 %i
  %yp = getelementptr float, ptr %a1, i64 %i
  %x = load float, ptr %xp, align 4
  %m = fmul float %x, 2.0
  %y = fadd float %m, 1.0
  store float %y, ptr %yp, align 4""",
    2,
)
# y[i] += x[i], integers
ADD = loop(
    """  %xp = getelementptr i64, ptr %a0, i64 %i
  %yp = getelementptr i64, ptr %a1, i64 %i
  %x = load i64, ptr %xp, align 8
  %o = load i64, ptr %yp, align 8
  %y = add i64 %x, %o
  store i64 %y, ptr %yp, align 8""",
    2,
)
# the address of the scratch memory, for each unit; its first and last byte of 4096 are written
SCRATCH = loop(
    """  %yp = getelementptr ptr, ptr %a0, i64 %i
  store ptr %scratch, ptr %yp
  %last = getelementptr i8, ptr %scratch, i64 4095
  store i8 1, ptr %scratch
  store i8 1, ptr %last""",
    1,
)
# counts a[0] down to 0 for each unit: time passes
BURN = """define void @entry(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
start:
  %a = load ptr, ptr %args
  %n = load i64, ptr %a
  %units = sub i64 %end, %begin
  %total = mul i64 %units, %n
  br label %loop
loop:
  %i = phi i64 [ %total, %start ], [ %less, %loop ]
  %less = sub i64 %i, 1
  call void asm sideeffect "", "r"(i64 %less)
  %more = icmp sgt i64 %less, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
# the address of the scratch memory, for each unit; the first a[1] units take the time of counting a[2] down
UNEVEN = """define void @entry(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
start:
  %slows = getelementptr i64, ptr %args, i64 1
  %counts = getelementptr i64, ptr %args, i64 2
  %out = load ptr, ptr %args
  %slow = load i64, ptr %slows
  %count = load i64, ptr %counts
  br label %each
each:
  %u = phi i64 [ %begin, %start ], [ %u1, %next ]
  %some = icmp slt i64 %u, %end
  br i1 %some, label %unit, label %done
unit:
  %place = getelementptr ptr, ptr %out, i64 %u
  store ptr %scratch, ptr %place
  %heavy = icmp slt i64 %u, %slow
  br i1 %heavy, label %burn, label %next
burn:
  %i = phi i64 [ %count, %unit ], [ %less, %burn ]
  %less = sub i64 %i, 1
  call void asm sideeffect "", "r"(i64 %less)
  %more = icmp sgt i64 %less, 0
  br i1 %more, label %burn, label %next
next:
  %u1 = add i64 %u, 1
  br label %each
done:
  ret void
}
"""
