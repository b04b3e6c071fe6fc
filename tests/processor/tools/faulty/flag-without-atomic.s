// A plain store announces data that another task reads once it sees the flag.
//! machine: dlp-m
//! task: block 2
//! args: zeros:i64:2
//! says: without order: gdram+0x100000 to +0x100008
//! says: second: cluster 0 core 1, control queue, instruction
 .entry main
main:
    SREAD $1, #taskId
    SADD $6, $0, #8
    SMOVE $7, #1
    CBNZ #wait, $1
    SMOVE $2, #77
    SSTORE.i64 $2, $0, #0
-   SSTORE.i64 $7, $6, #0
+   ATOMIC.i64.exch $5, $6, $7
    HALT
wait:
    SLOAD.i64 $3, $6, #0
    CBZ #wait, $3
    SLOAD.i64 $4, $0, #0
