// All tasks store to the same place: the offset by taskId was forgotten.
//! machine: dlp-m
//! task: block 16
//! args: empty:i32:16x8
//! says: write after write without order: gdram+0x100000 to +0x100020
//! says: first: cluster 0 core 0, io queue
//! says: second: cluster 0 core 1, io queue
 .entry main
main:
    SREAD $1, #taskId
    LI $10, #nram(0)
    SMOVE $2, #8
    VSET.i32 $10, $2, $1
    SYNC.vector
+   SSHL $3, $1, #5
+   SADD $0, $0, $3
    VSTORE.i32 $10, $2, $0, #0
