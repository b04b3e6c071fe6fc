// An argument that nobody passed.
//! args: random:f32:8
//! says: gdram+0x0 is a null pointer
//! says: VLOAD.f32 $10, $2, $1, #0 (null-pointer.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    SMOVE $2, #8
-   VLOAD $10, $2, $1, #0         //@1
+   VLOAD $10, $2, $0, #0
