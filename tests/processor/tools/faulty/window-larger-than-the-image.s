// A pooling window that does not fit into its image.
//! args: random:f32:8x8x4
//! says: a window that reaches over 9 does not fit into 8
//! says: VPOOL.f32.max $11, $10, $20 (window-larger-than-the-image.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x1000)
    SMOVE $1, #256
    VLOAD $10, $1, $0, #0
    SYNC
    SMOVE $20, #8
    SMOVE $21, #8
    SMOVE $22, #4
-   SMOVE $23, #9
+   SMOVE $23, #8
    SMOVE $24, #2
    SMOVE $25, #1
    SMOVE $26, #1
    VPOOL.f32.max $11, $10, $20   //@1
