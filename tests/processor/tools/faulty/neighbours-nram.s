// Core 0 writes into the NRAM of core 1, which is using it.
//! machine: dlp-m
//! task: union1 4
//! says: without order
//! says: nram+0x0 to +0x20
//! says: cluster 0 core 0, move queue
//! says: cluster 0 core 1, vector queue
 .entry main
main:
    SREAD $1, #coreId
    LI $10, #nram(0)
    LI $11, #nram(0, 0, 1)
    SMOVE $2, #32
    SADD $3, $1, #-1
    CBZ #one, $3
    CBNZ #meet, $1
    VSET.u8 $10, $2, #4
    SYNC
+   BARRIER.cluster
    COPY $11, $10, $2
    SYNC
-   BARRIER.cluster
    HALT
one:
    VSET.u8 $10, $2, #5
    SYNC
meet:
    BARRIER.cluster
