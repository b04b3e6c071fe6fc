; How threads sleep on Linux: the system call behind every lock of the C library, for one process (private).
define internal void @sleep(ptr %word) {
  %code = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 128, i64 1, ptr null, ptr null, i64 0)
  ret void
}

define internal void @wake(ptr %word) {
  %code = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret void
}

; A virtual machine's idle core looks taken to its system, which then leaves a thread on the core of its caller;
; so threads are told where not to run. Only a caller that has moved costs system calls.
define internal void @place(ptr %control) {
start:
  %cpu = call i32 @sched_getcpu()
  %mine = zext i32 %cpu to i64
  %number = add i64 %mine, 1
  %avoideds = getelementptr i64, ptr %control, i64 61
  %avoided = load i64, ptr %avoideds
  %moved = icmp ne i64 %avoided, %number
  %known = icmp ult i64 %mine, 256
  %wanted = and i1 %moved, %known
  br i1 %wanted, label %move, label %end
move:
  store i64 %number, ptr %avoideds
  %mask = alloca [4 x i64]
  %allowed = getelementptr i64, ptr %control, i64 72
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %allowed, i64 32, i1 false)
  %which = lshr i64 %mine, 6
  %words = getelementptr i64, ptr %mask, i64 %which
  %bit = and i64 %mine, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %before = load i64, ptr %words
  %after = and i64 %before, %others
  store i64 %after, ptr %words
  %threadses = getelementptr i64, ptr %control, i64 48
  %threads = load i64, ptr %threadses
  br label %each
each:
  %t = phi i64 [ 1, %move ], [ %t1, %thread ]
  %some = icmp ult i64 %t, %threads
  br i1 %some, label %thread, label %end
thread:
  %line = call ptr @line(ptr %control, i64 %t)
  %tids = getelementptr i64, ptr %line, i64 5
  %tid = load i64, ptr %tids
  %code = call i64 (i64, ...) @syscall(i64 $affinity, i64 %tid, i64 32, ptr %mask)
  %t1 = add i64 %t, 1
  br label %each
end:
  ret void
}

declare i32 @sched_getcpu()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @syscall(i64, ...)
