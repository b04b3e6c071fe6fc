// LDRAM ends.
//! says: ldram+0x4000000: bytes 67108864 to 67108872 reach outside the ldram of 67108864 bytes
//! says: SSTORE.i64 $1, $10, #0 (beyond-ldram.s:@1)
 .entry main
main:
-   LI $10, #ldram(0x4000000)
+   LI $10, #ldram(0x3fffff8)
    SSTORE.i64 $1, $10, #0        //@1
