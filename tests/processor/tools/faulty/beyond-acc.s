// More accumulators than the machine has.
//! machine: tpu-v1
//! says: acc+0x0: bytes 0 to 4194560 reach outside the acc of 4194304 bytes
//! says: VMOVE.f32 $11, $1, $10 (beyond-acc.s:@1)
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #acc(0)
    LI $2, #1048640
    VSET $10, $2, #0
    SYNC
-   LI $1, #1048640
+   LI $1, #1048576
    VMOVE $11, $1, $10            //@1
