// The memory core meets the others while its copy is still under way.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:256
//! says: read after write without order: sram+0x0 to +0x40
//! says: remedy: put SYNC.io behind the first, then let both cores come to a BARRIER.cluster between them
 .entry main
main:
    SREAD $1, #isMpu
    LI $10, #sram(0)
    LI $11, #nram(0)
    SMOVE $2, #256
    SMOVE $3, #64
    CBZ #meet, $1
    COPY $10, $0, $2
+   SYNC.io
meet:
    BARRIER.cluster
    CBNZ #end, $1
    COPY $11, $10, $3
end:
    HALT
