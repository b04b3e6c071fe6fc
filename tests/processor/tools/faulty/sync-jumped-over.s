// One way through the branch leaves the SYNC out.
//! args: random:f32:32, 0
//! says: read after write without order: nram+0x0 to +0x80
//! says: VNEG.f32 $10, $2, $10 (sync-jumped-over.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    SMOVE $2, #32
    VLOAD $10, $2, $0, #0
-   CBZ #skip, $1
+   CBZ #wait, $1
    SADD $5, $5, #1
wait:
    SYNC.io
skip:
    VNEG $10, $2, $10             //@1
