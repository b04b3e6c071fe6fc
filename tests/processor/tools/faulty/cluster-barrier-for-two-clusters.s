// Cluster 1 reads what cluster 0 wrote to DRAM; the barrier holds only one cluster together.
//! machine: dlp-m
//! task: union2 8
//! args: zeros:i32:4
//! says: read after write without order: gdram+0x100000 to +0x100004
//! says: first: cluster 0 core 0, control queue
//! says: second: cluster 1 core 0, control queue
//! says: remedy: let both cores come to a BARRIER.chip between them
 .entry main
main:
    SREAD $1, #clusterId
    SREAD $2, #coreId
    SOR $3, $1, $2
    CBNZ #meet, $3
    SMOVE $4, #1
    SSTORE.i32 $4, $0, #0
meet:
-   BARRIER.cluster
+   BARRIER.chip
    CBZ #end, $1
    CBNZ #end, $2
    SLOAD.i32 $5, $0, #0
end:
    HALT
