// Two threads of work share rows of 16 bytes, 8 bytes each. Their boxes overlap either way; their bytes only if
// the second half begins 4 bytes too early.
//! args: random:u8:32x8, empty:u8:32x16
//! says: read after write without order: nram+0x4 to +0x8
//! says: io queue, instruction
//! says: move queue, instruction
 .entry main
main:
    LI $10, #nram(0)
-   LI $11, #nram(4)
+   LI $11, #nram(8)
    LI $12, #nram(0x1000)
    SMOVE $2, #512
    VSET.u8 $10, $2, #9
    SYNC
    SMOVE $3, #8
    SMOVE $4, #16                 // dst_stride, a_stride, count
    SMOVE $5, #8
    SMOVE $6, #32
    COPY2 $10, $0, $3, $4         // the left halves arrive
    SMOVE $5, #16
    COPY2 $12, $11, $3, $4        // the right halves are moved away
