// 100 elements over 16 tasks: slices are 7 long but begin every 6.
//! machine: dlp-m
//! task: block 16
//! args: empty:f32:112
//! says: write after write without order: gdram+0x100018 to +0x10001c
 .entry main
main:
    SREAD $1, #taskId
    LI $10, #nram(0)
    SMOVE $2, #7
    VSET $10, $2, #1
    SYNC.vector
-   SMUL $3, $1, #24
+   SMUL $3, $1, #28
    SADD $0, $0, $3
    VSTORE $10, $2, $0, #0
