// One element more than the array in DRAM has.
//! args: random:f32:100
//! says: bytes 0x100000 to 0x100194 are in no allocated block; the block before it ends at 0x100190
//! says: VLOAD.f32 $10, $1, $0, #0 (beyond-the-array.s:@1)
 .entry main
main:
    LI $10, #nram(0)
-   SMOVE $1, #101
+   SMOVE $1, #100
    VLOAD $10, $1, $0, #0         //@1
