// The store is longer than what was computed.
//! args: empty:f32:32
//! says: uninitialised bytes reach DRAM: 16 of 128 bytes, nram+0x70 was never written
//! says: VSTORE.f32 $10, $1, $0, #0 (unwritten-bytes-stored.s:@1)
 .entry main
main:
    LI $10, #nram(0)
-   SMOVE $1, #28
+   SMOVE $1, #32
    VSET $10, $1, #1
    SYNC
    SMOVE $1, #32
    VSTORE $10, $1, $0, #0        //@1
