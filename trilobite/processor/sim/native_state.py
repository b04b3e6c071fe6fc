"""What translated code and the simulator share: the layout of a core's state, and the access to its memories.

Enters: nothing. Leaves: word numbers of the state, and LLVM text. Words 0 to 63 are the registers.
"""

from __future__ import annotations

# Words of the state that translated code and the simulator share.
PC, EXECUTED, LIMIT, SCRATCH, DRAM, READ_LOW, READ_HIGH, WRITE_LOW, WRITE_HIGH = range(64, 73)
STEP, TENSORS, SCALAR_PLACE = range(73, 76)  # code and state of tensor instructions; where scalar work began
SEED, RANDOM_BLOCK = range(76, 78)  # of the core's stream of random numbers
SPACES = (
    80  # four words a memory space: host address, bytes, whether it is on chip, whether it may be written
)
BLOCKS = 112  # four DRAM blocks, start and end
FIELDS = 120  # operands of a tensor instruction
STATE_WORDS = 152
FAR = (1 << 63) - 1

# The host address of a simulated one, or 0; counts the access and widens the touched range of scratchpads.
LOCATE = f"""
define internal i64 @locate(ptr %s, i64 %address, i64 %size, i64 %store) alwaysinline {{
  %space = lshr i64 %address, 56
  %owner = and i64 %address, 72056494526300160
  %low = sub i64 %size, 1
  %skew = and i64 %address, %low
  %odd = or i64 %owner, %skew
  %fine = icmp eq i64 %odd, 0
  %known = icmp ult i64 %space, 7
  %go = and i1 %fine, %known
  br i1 %go, label %table, label %fail
table:
  %offset = and i64 %address, 1099511627775
  %end = add i64 %offset, %size
  %row = shl i64 %space, 2
  %word = add i64 %row, {SPACES}
  %entry = getelementptr i64, ptr %s, i64 %word
  %base = load i64, ptr %entry
  %isdram = icmp eq i64 %space, 0
  br i1 %isdram, label %dram, label %pad
dram:
  %bp = getelementptr i64, ptr %s, i64 {BLOCKS}
  br label %try
try:
  %i = phi i64 [ 0, %dram ], [ %next, %again ]
  %at = shl i64 %i, 1
  %lp = getelementptr i64, ptr %bp, i64 %at
  %lo = load i64, ptr %lp
  %hp = getelementptr i64, ptr %lp, i64 1
  %hi = load i64, ptr %hp
  %above = icmp uge i64 %offset, %lo
  %below = icmp ule i64 %end, %hi
  %inside = and i1 %above, %below
  br i1 %inside, label %far, label %again
again:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 4
  br i1 %more, label %try, label %fail
pad:
  %sp = getelementptr i64, ptr %entry, i64 1
  %limit = load i64, ptr %sp
  %fits = icmp ule i64 %end, %limit
  %wp = getelementptr i64, ptr %entry, i64 3
  %writable = load i64, ptr %wp
  %allowed = icmp ule i64 %store, %writable
  %good = and i1 %fits, %allowed
  br i1 %good, label %which, label %fail
which:
  %cp = getelementptr i64, ptr %entry, i64 2
  %chip = load i64, ptr %cp
  %onchip = icmp ne i64 %chip, 0
  br i1 %onchip, label %near, label %far
near:
  %np = getelementptr i64, ptr %s, i64 {SCRATCH}
  %n = load i64, ptr %np
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %np
  %shift = shl i64 %store, 1
  %tw = add i64 %shift, {READ_LOW}
  %tp = getelementptr i64, ptr %s, i64 %tw
  %tl = load i64, ptr %tp
  %lower = icmp ult i64 %address, %tl
  %newlow = select i1 %lower, i64 %address, i64 %tl
  store i64 %newlow, ptr %tp
  %hp2 = getelementptr i64, ptr %tp, i64 1
  %th = load i64, ptr %hp2
  %top = add i64 %address, %size
  %higher = icmp ugt i64 %top, %th
  %newhigh = select i1 %higher, i64 %top, i64 %th
  store i64 %newhigh, ptr %hp2
  br label %found
far:
  %dp = getelementptr i64, ptr %s, i64 {DRAM}
  %d = load i64, ptr %dp
  %d1 = add i64 %d, 1
  store i64 %d1, ptr %dp
  br label %found
found:
  %host = add i64 %base, %offset
  ret i64 %host
fail:
  ret i64 0
}}
"""
