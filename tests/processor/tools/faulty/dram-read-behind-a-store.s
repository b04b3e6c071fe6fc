// A scalar load asks DRAM for what the io queue is still writing there.
//! args: empty:f32:32
//! says: read after write without order: gdram+0x100000 to +0x100004
//! says: VSTORE.f32 $10, $1, $0, #0 (dram-read-behind-a-store.s:@1)
//! says: control queue, instruction 6: SLOAD.f32 $2, $0, #0 (dram-read-behind-a-store.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    SMOVE $1, #32
    VSET $10, $1, #2.5
    SYNC.vector
    VSTORE $10, $1, $0, #0        //@1
+   SYNC.io
    SLOAD.f32 $2, $0, #0          //@2
