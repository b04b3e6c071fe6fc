// The next tile is loaded over the one that the vector unit still reads.
//! args: random:f32:128
//! says: write after read without order: nram+0x0 to +0x100
//! says: VMV.f32 $11, $2, $10, $10 (reload-while-reading.s:@1)
//! says: VLOAD.f32 $10, $2, $0, #256 (reload-while-reading.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(4096)
    SMOVE $2, #64
    VLOAD $10, $2, $0, #0
    SYNC.io
    VMV $11, $2, $10, $10         //@1
+   SYNC.vector
    VLOAD $10, $2, $0, #256       //@2
