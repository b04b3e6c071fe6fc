// Double work, one barrier: the memory core brings the next tile while the cores still read this one.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:2x128
//! says: without order: sram+0x0 to +0x80
//! says: cluster 0 memory core, io queue
//! says: move queue
 .entry main
main:
    SREAD $1, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    SMOVE $2, #128
    SMOVE $3, #2
next:
    CBZ #meet, $1
    COPY $10, $0, $2
    SADD $0, $0, #128
    SYNC
meet:
    BARRIER.cluster
    CBNZ #done, $1
    COPY $11, $10, $2
    SYNC
done:
+   BARRIER.cluster
    SADD $3, $3, #-1
    CB #next, $3
