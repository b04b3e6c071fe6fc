// A load and a fill write the same bytes; nobody knows which comes last.
//! args: random:f32:40
//! says: write after write without order: nram+0x80 to +0xa0
//! says: VLOAD.f32 $10, $1, $0, #0 (two-writers.s:@1)
//! says: VSET.f32 $11, $2, #0.0 (two-writers.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(128)
    SMOVE $1, #40
    SMOVE $2, #24
    VLOAD $10, $1, $0, #0         //@1
+   SYNC.io
    VSET $11, $2, #0.0            //@2
