// Vectors are padded to 64; storing the padding as well gives DRAM what nobody wrote. Computing with it is normal.
//! args: random:f32:64, empty:f32:64
//! says: uninitialised bytes reach DRAM: 56 of 256 bytes, nram+0xc8 was never written
//! says: VSTORE.f32 $11, $3, $1, #0 (padded-tail-stored.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x1000)
    SMOVE $2, #50
    SMOVE $3, #64
    VLOAD $10, $2, $0, #0
    SYNC
    VEXP $11, $3, $10
    VMS $11, $3, $11, #0.5
    VSV $11, $3, $11, $10
    SYNC
-   VSTORE $11, $3, $1, #0        //@1
+   VSTORE $11, $2, $1, #0
