// Rows of 64 bytes are laid 68 bytes apart, so the last row reaches into the buffer behind, which is being read.
//! args: random:u8:16x64, random:u8:64
//! says: write after read without order: nram+0x400 to +0x43c
//! says: VAS.u8 $12, $5, $11, #1 (stride-off-by-four.s:@1)
//! says: COPY2 $10, $0, $5, $2 (stride-off-by-four.s:@2)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(1024)
    LI $12, #nram(0x4000)
    SMOVE $5, #64
    VLOAD.u8 $11, $5, $1, #0
    SYNC.io
    VAS.u8 $12, $5, $11, #1       //@1
-   SMOVE $2, #68                 // dst_stride, a_stride, count
+   SMOVE $2, #64                 // dst_stride, a_stride, count
    SMOVE $3, #64
    SMOVE $4, #16
    COPY2 $10, $0, $5, $2         //@2
