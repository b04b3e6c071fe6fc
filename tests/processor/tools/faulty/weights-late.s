// The matrix unit starts before its weights are there.
//! args: random:f16:8x16, random:f16:16x4
//! says: read after write without order: wram+0x0 to +0x80
//! says: MLOAD.f16 $11, $21, $1, #0 (weights-late.s:@1)
//! says: MM.f32.f16.f16 $12, $10, $11, $3, $6 (weights-late.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #wram(0)
    LI $12, #nram(4096)
    SMOVE $20, #128
    SMOVE $21, #64
    VLOAD.f16 $10, $20, $0, #0
    SYNC.io
    MLOAD.f16 $11, $21, $1, #0    //@1
    SMOVE $3, #8
    SMOVE $4, #4
    SMOVE $5, #16
+   SYNC.io
    MM.f32.f16.f16 $12, $10, $11, $3, $6//@2
