// A table in .data is one entry shorter than the loop.
//! says: bytes 16 to 20 reach outside the code of 16 bytes
//! says: SLOAD.i32 $3, $1, #0 (beyond-the-constants.s:@1)
 .data
table: .word32 3, 1, 4, 1
 .text
 .entry main
main:
    LA $1, table
-   SMOVE $2, #5
+   SMOVE $2, #4
next:
    SLOAD.i32 $3, $1, #0          //@1
    SADD $1, $1, #4
    SADD $2, $2, #-1
    CB #next, $2
