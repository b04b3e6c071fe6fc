// A scalar store changes a buffer that is still being copied out.
//! args: empty:i32:16
//! says: write after read without order: nram+0xc to +0x10
//! says: io queue
//! says: SSTORE.i32 $3, $10, #12 (scalar-write-under-a-store.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    SMOVE $2, #16
    SMOVE $3, #7
    VSET.i32 $10, $2, #1
    SYNC.vector
    VSTORE.i32 $10, $2, $0, #0
+   SYNC.io
    SSTORE.i32 $3, $10, #12       //@1
