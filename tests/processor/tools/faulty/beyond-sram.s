// A stride that leads out of SRAM.
//! machine: dlp-m
//! task: union1 4
//! args: random:u8:1024
//! says: sram+0x1f0000: bytes 2031616 to 2163712 reach outside the sram of 2097152 bytes
//! says: COPY2 $10, $0, $1, $2 (beyond-sram.s:@1)
 .entry main
main:
    SREAD $9, #isMpu
    CBZ #end, $9
    LI $10, #sram(0x1f0000)
    SMOVE $1, #1024
    LI $2, #65536
    SMOVE $3, #0
-   SMOVE $4, #3
+   SMOVE $4, #1
    COPY2 $10, $0, $1, $2         //@1
end:
    HALT
