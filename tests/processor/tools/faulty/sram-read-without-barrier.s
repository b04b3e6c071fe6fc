// The cores read SRAM without waiting for the memory core that fills it.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:256
//! says: without order: sram+0x0 to +0x40
//! says: cluster 0 memory core, io queue, instruction
//! says: let both cores come to a BARRIER.cluster between them, or give each its own bytes
 .entry main
main:
    SREAD $1, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    SMOVE $2, #256
    SMOVE $3, #64
    CBZ #core, $1
    COPY $10, $0, $2
    SYNC
+   BARRIER.cluster
    HALT
core:
+   BARRIER.cluster
    COPY $11, $10, $3
    SYNC
