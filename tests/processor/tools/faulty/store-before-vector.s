// A result is stored before it has been computed.
//! args: random:f32:64, empty:f32:64
//! says: read after write without order: nram+0x1000 to +0x1100
//! says: VEXP.f32 $11, $2, $10 (store-before-vector.s:@1)
//! says: VSTORE.f32 $11, $2, $1, #0 (store-before-vector.s:@2)
//! says: remedy: put SYNC.vector between them
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(4096)
    SMOVE $2, #64
    VLOAD $10, $2, $0, #0
    SYNC.io
    VEXP $11, $2, $10             //@1
+   SYNC.vector
    VSTORE $11, $2, $1, #0        //@2
