// The tile has 16 rows, but the next one begins 15 rows behind it: inside the one that is used.
//! args: random:u8:16x64
//! says: write after read without order: nram+0x3c0 to +0x3fc
//! says: COPY2 $11, $0, $1, $2 (one-row-short.s:@1)
 .entry main
main:
    LI $10, #nram(0)
-   LI $11, #nram(960)
+   LI $11, #nram(1024)
    LI $12, #nram(0x4000)
    SMOVE $1, #60
    SMOVE $2, #64
    SMOVE $3, #64
    SMOVE $4, #16
    SMOVE $5, #1024
    VSET.u8 $10, $5, #0
    SYNC
    COPY2 $10, $0, $1, $2
    SYNC.io
    VAS.u8 $12, $5, $10, #1
    // the second tile is loaded while the first is used
    COPY2 $11, $0, $1, $2         //@1
