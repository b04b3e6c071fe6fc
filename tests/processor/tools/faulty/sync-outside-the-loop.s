// The first round is right; the second loads over a tile that is still read.
//! args: random:f32:4x32
//! says: write after read without order: nram+0x0 to +0x80
//! says: VLOG.f32 $11, $2, $10 (sync-outside-the-loop.s:@1)
//! says: VLOAD.f32 $10, $2, $0, #0 (sync-outside-the-loop.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x1000)
    SMOVE $2, #32
    SMOVE $3, #4
next:
    VLOAD $10, $2, $0, #0         //@2
    SYNC.io
    VLOG $11, $2, $10             //@1
+   SYNC.vector
    SADD $0, $0, #128
    SADD $3, $3, #-1
    CB #next, $3
    SYNC
