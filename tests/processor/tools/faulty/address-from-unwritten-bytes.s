// A pointer is loaded from a table that was never written.
//! args: random:f32:8
//! says: uninitialised bytes reach an address: $3, loaded from ldram+0x10 (address-from-unwritten-bytes.s:@1)
//! says: VLOAD.f32 $11, $2, $3, #0 (address-from-unwritten-bytes.s:@2)
 .entry main
main:
    LI $10, #ldram(16)
    LI $11, #nram(0)
+   SSTORE.i64 $0, $10, #0
    SLOAD.i64 $3, $10, #0         //@1
    SMOVE $2, #8
    SOR $3, $3, $0
    VLOAD $11, $2, $3, #0         //@2
