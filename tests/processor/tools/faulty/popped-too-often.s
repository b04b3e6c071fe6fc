// More is popped than was pushed.
//! says: stack underflow: nram+0x80008 is outside the room of the stack
//! says: remedy: pop only what was pushed
 .entry main
main:
    SADD $62, $62, #-8
    SSTORE.i64 $1, $62, #0
    SLOAD.i64 $1, $62, #0
-   SADD $62, $62, #16
+   SADD $62, $62, #8
