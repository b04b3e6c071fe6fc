// The activation reads the accumulators while the matrix unit still fills them.
//! args: random:f16:8x16, random:f16:16x4
//! says: read after write without order: nram+0x1000 to +0x1080
//! says: matrix queue, instruction
//! says: VTANH.f32 $12, $22, $12 (activation-before-product.s:@1)
//! says: remedy: put SYNC.matrix between them
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #wram(0)
    LI $12, #nram(4096)
    SMOVE $20, #128
    SMOVE $21, #64
    SMOVE $22, #32
    VLOAD.f16 $10, $20, $0, #0
    MLOAD.f16 $11, $21, $1, #0
    SYNC
    SMOVE $3, #8
    SMOVE $4, #4
    SMOVE $5, #16
    MM.f32.f16.f16 $12, $10, $11, $3, $6
+   SYNC.matrix
    VTANH.f32 $12, $22, $12       //@1
