// The last tile reaches over the end of NRAM.
//! says: nram+0x7ff00: bytes 524032 to 524292 reach outside the nram of 524288 bytes
//! says: VSET.f32 $10, $1, #1.0 (beyond-nram.s:@1)
 .entry main
main:
    LI $10, #nram(0x7ff00)
-   SMOVE $1, #65
+   SMOVE $1, #64
    VSET $10, $1, #1              //@1
