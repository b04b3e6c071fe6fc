; What all machine code beside kernels needs: a lock, the time, and a rest while waiting.

$pause

; Takes a word from 0 to 1; says whether it was this caller who did.
define internal i64 @seize(ptr %word) {
  %pair = cmpxchg ptr %word, i64 0, i64 1 acq_rel monotonic
  %taken = extractvalue { i64, i1 } %pair, 1
  %result = zext i1 %taken to i64
  ret i64 %result
}

define internal void @release(ptr %word) {
  store atomic i64 0, ptr %word release, align 8
  ret void
}

define internal i64 @nanoseconds() {
  %time = alloca [2 x i64]
  %code = call i32 @clock_gettime(i32 $clock, ptr %time)
  %parts = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %rest = load i64, ptr %parts
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

declare i32 @clock_gettime(i32, ptr)
