// Tasks count in DRAM by loading, adding and storing.
//! machine: dlp-m
//! task: block 8
//! args: zeros:i64:1
//! says: read after write without order: gdram+0x100000 to +0x100008
//! says: SSTORE.i64 $2, $0, #0 (counter-without-atomic.s:@1)
//! says: SLOAD.i64 $2, $0, #0 (counter-without-atomic.s:@2)
 .entry main
main:
    SMOVE $1, #1
-   SLOAD.i64 $2, $0, #0          //@2
-   SADD $2, $2, $1
-   SSTORE.i64 $2, $0, #0         //@1
+   ATOMIC.i64.add $2, $0, $1
    HALT
