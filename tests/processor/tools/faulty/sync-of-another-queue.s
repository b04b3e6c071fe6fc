// It waits, but for the wrong queue.
//! args: random:f32:64
//! says: read after write without order: nram+0x0 to +0x100
//! says: (sync-of-another-queue.s:@1)
//! says: VSQRT.f32 $11, $1, $10 (sync-of-another-queue.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(4096)
    SMOVE $1, #64
    VLOAD $10, $1, $0, #0         //@1
-   SYNC.move
+   SYNC.io
    VSQRT $11, $1, $10            //@2
