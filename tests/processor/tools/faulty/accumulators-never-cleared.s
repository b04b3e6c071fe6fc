// A product accumulates onto cells that nothing set.
//! args: random:f16:4x8, random:f16:8x4, empty:f32:4x4
//! says: uninitialised bytes reach DRAM: 64 of 64 bytes, nram+0x1000 was never written
//! says: VSTORE.f32 $12, $22, $2, #0 (accumulators-never-cleared.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #wram(0)
    LI $12, #nram(0x1000)
    SMOVE $20, #32
    SMOVE $22, #16
    VLOAD.f16 $10, $20, $0, #0
    MLOAD.f16 $11, $20, $1, #0
    SYNC
    SMOVE $3, #4
    SMOVE $4, #4
    SMOVE $5, #8
-   MM.f32.f16.f16.acc $12, $10, $11, $3, $6
+   MM.f32.f16.f16 $12, $10, $11, $3, $6
    SYNC.matrix
    VSTORE $12, $22, $2, #0       //@1
