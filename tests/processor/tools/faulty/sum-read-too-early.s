// A scalar load takes a sum that the vector unit has not finished.
//! args: random:f32:50, empty:f32:1
//! says: read after write without order: nram+0x400 to +0x404
//! says: vector queue, instruction 7: VSUM.f32 $11, $2, $10 (sum-read-too-early.s:@1)
//! says: control queue, instruction 8: SLOAD.f32 $3, $11, #0 (sum-read-too-early.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(1024)
    SMOVE $2, #50
    VLOAD $10, $2, $0, #0
    SYNC
    VSUM $11, $2, $10             //@1
+   SYNC.vector
    SLOAD.f32 $3, $11, #0         //@2
    SSTORE.f32 $3, $1, #0
