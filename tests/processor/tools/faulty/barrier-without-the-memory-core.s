// The cores meet among themselves; the memory core that fills SRAM is not invited.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:256
//! says: without order: sram+0x0 to +0x40
//! says: cluster 0 memory core, io queue
 .entry main
main:
    SREAD $1, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    SMOVE $2, #256
    SMOVE $3, #64
    CBZ #core, $1
    COPY $10, $0, $2
    SYNC.io
+   BARRIER.cluster
    HALT
core:
-   BARRIER.cluster.ipu
+   BARRIER.cluster
    COPY $11, $10, $3
