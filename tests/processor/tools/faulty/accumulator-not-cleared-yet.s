// The product accumulates into cells that the vector unit is still clearing.
//! args: random:f16:4x8, random:f16:8x4
//! says: read after write without order: nram+0x1000 to +0x1040
//! says: VSET.f32 $12, $22, #0.0 (accumulator-not-cleared-yet.s:@1)
//! says: MM.f32.f16.f16.acc $12, $10, $11, $3, $6 (accumulator-not-cleared-yet.s:@2)
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
    VSET $12, $22, #0             //@1
    SMOVE $3, #4
    SMOVE $4, #4
    SMOVE $5, #8
+   SYNC.vector
    MM.f32.f16.f16.acc $12, $10, $11, $3, $6//@2
