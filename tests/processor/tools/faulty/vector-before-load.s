// A vector is used before its load has arrived.
//! args: random:f32:64
//! says: read after write without order: nram+0x0 to +0x100
//! says: first: cluster 0 core 0, io queue, instruction 5: VLOAD.f32 $10, $1, $0, #0 (vector-before-load.s:@1)
//! says: second: cluster 0 core 0, vector queue, instruction 6: VAV.f32 $11, $1, $10, $10 (vector-before-load.s:@2)
//! says: remedy: put SYNC.io between them
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(4096)
    SMOVE $1, #64
    VLOAD $10, $1, $0, #0         //@1
+   SYNC.io
    VAV $11, $1, $10, $10         //@2
