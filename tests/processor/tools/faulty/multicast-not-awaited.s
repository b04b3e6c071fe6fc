// The cores use what a multicast brings without meeting its sender.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:64
//! says: read after write without order
//! says: cluster 0 memory core, move queue, instruction
//! says: vector queue, instruction
 .entry main
main:
    SREAD $1, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    LI $12, #nram(0x1000)
    SMOVE $2, #64
    SMOVE $3, #15
    CBZ #use, $1
    COPY $10, $0, $2
    SYNC
-   BARRIER.cluster
    COPYX $11, $10, $2, $3
    SYNC
+   BARRIER.cluster
    HALT
use:
    BARRIER.cluster
-   BARRIER.cluster.ipu
    VAS.u8 $12, $2, $11, #1
