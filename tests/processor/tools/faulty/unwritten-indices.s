// The last four indices of a gather were never written.
//! args: random:f32:64
//! says: uninitialised bytes reach an address: nram+0x1030 was never written
//! says: VGATH.f32.i32 $12, $3, $10, $11, $2 (unwritten-indices.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x1000)
    LI $12, #nram(0x2000)
    SMOVE $2, #64
    VLOAD $10, $2, $0, #0
-   SMOVE $3, #12
+   SMOVE $3, #16
    VSET.i32 $11, $3, #5
    SYNC
    SMOVE $3, #16
    VGATH $12, $3, $10, $11, $2   //@1
