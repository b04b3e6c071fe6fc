// A loop counter is read from NRAM that nothing filled.
//! says: uninitialised bytes reach a branch: $2, loaded from nram+0x40 (branch-on-unwritten-bytes.s:@1)
//! says: CB #.-1, $2 (branch-on-unwritten-bytes.s:@2)
 .entry main
main:
    LI $10, #nram(64)
+   SSTORE.i32 $1, $10, #0
    SLOAD.i32 $2, $10, #0         //@1
next:
    SADD $2, $2, #-1
    CB #next, $2                  //@2
