; How threads sleep on Linux: the system call behind every lock of the C library, for one process (private).
define internal void @sleep(ptr %word) {
  %code = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 128, i64 1, ptr null, ptr null, i64 0)
  ret void
}

define internal void @wake(ptr %word) {
  %code = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret void
}

declare i64 @syscall(i64, ...)
