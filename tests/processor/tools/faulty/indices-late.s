// A gather uses indices that have not arrived.
//! args: random:f32:64, zeros:i32:16
//! says: read after write without order: nram+0x1000 to +0x1040
//! says: VGATH.f32.i32 $12, $3, $10, $11, $2 (indices-late.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x1000)
    LI $12, #nram(0x2000)
    SMOVE $2, #64
    SMOVE $3, #16
    VLOAD $10, $2, $0, #0
    SYNC.io
    VLOAD.i32 $11, $3, $1, #0
+   SYNC.io
    VGATH $12, $3, $10, $11, $2   //@1
