// Source and destination are swapped: NRAM goes to DRAM where DRAM should come to NRAM.
//! args: random:u8:96
//! says: uninitialised bytes reach DRAM: 96 of 96 bytes, nram+0x0 was never written
//! says: COPY $0, $10, $1 (copy-in-the-wrong-direction.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    SMOVE $1, #96
-   COPY $0, $10, $1              //@1
+   COPY $10, $0, $1
