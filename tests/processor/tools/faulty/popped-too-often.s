// More is popped than was pushed; the stack ends where NRAM does.
//! says: nram+0x80008: bytes 524296 to 524304 reach outside the nram of 524288 bytes
//! says: SLOAD.i64 $1, $62, #0 (popped-too-often.s:@1)
 .entry main
main:
    SADD $62, $62, #-16
    SSTORE.i64 $1, $62, #8
-   SADD $62, $62, #24
+   SADD $62, $62, #8
    SLOAD.i64 $1, $62, #0         //@1
