// Two buffers that should touch overlap by one element.
//! args: random:f32:33, random:f32:32
//! says: write after read without order: nram+0x80 to +0x84
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(128)
    LI $12, #nram(0x1000)
-   SMOVE $2, #33
+   SMOVE $2, #32
    SMOVE $3, #32
    VLOAD $10, $2, $0, #0
    SYNC.io
    VEXP $12, $2, $10
    VLOAD $11, $3, $1, #0
