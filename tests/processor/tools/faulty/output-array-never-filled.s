// The kernel adds to an output that the host allocated but did not fill.
//! args: random:f32:16, empty:f32:16
//! twin args: random:f32:16, zeros:f32:16
//! says: uninitialised bytes reach DRAM: 64 of 64 bytes, gdram+0x100100 was never written
//! says: VSTORE.f32 $11, $2, $1, #0 (output-array-never-filled.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x1000)
    SMOVE $2, #16
    VLOAD $10, $2, $0, #0
    VLOAD $11, $2, $1, #0
    SYNC
    VAV $11, $2, $11, $10
    SYNC
    VSTORE $11, $2, $1, #0        //@1
