// Each core writes a slice of SRAM that is one row too long.
//! machine: dlp-m
//! task: union1 4
//! says: write after write without order: sram+0x40 to +0x50
//! says: first: cluster 0 core 0, move queue
//! says: second: cluster 0 core 1, move queue
 .entry main
main:
    SREAD $1, #isMpu
    CBNZ #end, $1
    SREAD $2, #coreId
    LI $10, #sram(0)
    LI $11, #nram(0)
    SMUL $3, $2, #64
    SADD $10, $10, $3
    SMOVE $4, #80
    VSET.u8 $11, $4, #3
    SYNC
-   SMOVE $4, #80
+   SMOVE $4, #64
    COPY $10, $11, $4
    SYNC
end:
    HALT
