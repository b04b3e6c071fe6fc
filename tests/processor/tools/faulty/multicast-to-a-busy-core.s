// The memory core multicasts into NRAM that core 2 is still reading.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:64
//! says: without order: cluster 0 core 2 nram+0x0 to +0x40
//! says: cluster 0 core 2, vector queue
//! says: cluster 0 memory core, move queue
 .entry main
main:
    SREAD $1, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    LI $12, #nram(0x1000)
    SMOVE $2, #64
    SMOVE $3, #4                  // core 2 alone
    CBNZ #send, $1
    SREAD $4, #coreId
    SADD $4, $4, #-2
    CBNZ #meet, $4
    VSET.u8 $11, $2, #1
    VAS.u8 $12, $2, $11, #1
+   SYNC.vector
meet:
    BARRIER.cluster
    HALT
send:
    COPY $10, $0, $2
    SYNC
    BARRIER.cluster
    COPYX $11, $10, $2, $3
    SYNC
