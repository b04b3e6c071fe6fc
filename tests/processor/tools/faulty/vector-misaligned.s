// A vector of halves begins at an odd byte.
//! args: random:f16:16
//! says: nram+0x101 is not aligned to the 2 bytes of f16
//! says: (vector-misaligned.s:@1)
 .entry main
main:
-   LI $10, #nram(257)
+   LI $10, #nram(258)
    SMOVE $1, #16
    VLOAD.f16 $10, $1, $0, #0     //@1
