// The vector unit reads NRAM, not WRAM.
//! args: random:f32:32
//! says: wram+0x0 was given where an address in nram is needed
//! says: VAV.f32 $11, $1, $10, $10 (weights-given-to-the-vector-unit.s:@1)
 .entry main
main:
-   LI $10, #wram(0)
+   LI $10, #nram(0)
    LI $11, #nram(4096)
    SMOVE $1, #32
    VSET $11, $1, #1
    VAV $11, $1, $10, $10         //@1
