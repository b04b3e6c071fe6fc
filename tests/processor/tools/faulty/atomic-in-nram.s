// Atomics work on DRAM and SRAM, which cores share.
//! args: zeros:i64:1
//! says: nram+0x0 was given where an address in gdram or sram is needed
//! says: ATOMIC.i64.add $2, $10, $1 (atomic-in-nram.s:@1)
 .entry main
main:
    SMOVE $1, #1
-   LI $10, #nram(0)
+   SMOVE $10, $0
    ATOMIC.i64.add $2, $10, $1    //@1
