// Double buffering with the same buffer twice: the load of the next tile meets the use of this one.
//! args: random:f32:8x32, empty:f32:8x32
//! says: read after write without order: nram+0x0 to +0x80
//! says: VAS.f32 $12, $2, $10, #1.0 (ping-pong-on-one-buffer.s:@1)
//! says: VLOAD.f32 $11, $2, $0, #0 (ping-pong-on-one-buffer.s:@2)
 .entry main
main:
    LI $10, #nram(0)
-   LI $11, #nram(0)
+   LI $11, #nram(128)
    LI $12, #nram(0x1000)
    SMOVE $2, #32
    SMOVE $5, #7
    VLOAD $10, $2, $0, #0
    SYNC.io
next:
    SADD $0, $0, #128
    VLOAD $11, $2, $0, #0         //@2 the next tile arrives
    VAS $12, $2, $10, #1          //@1 while this one is computed
    SYNC
    VSTORE $12, $2, $1, #0
    SYNC.io
    SADD $1, $1, #128
    SMOVE $6, $10
    SMOVE $10, $11
    SMOVE $11, $6
    SADD $5, $5, #-1
    CB #next, $5
