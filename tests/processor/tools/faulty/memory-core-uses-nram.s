// The memory core has no NRAM of its own.
//! machine: dlp-m
//! task: union1 4
//! says: the memory core has no nram
//! says: cluster 0 memory core, task 0, instruction
//! says: (memory-core-uses-nram.s:@1)
 .entry main
main:
    SREAD $1, #isMpu
    SMOVE $2, #8
-   LI $10, #nram(0)
+   CBNZ #end, $1
+   LI $10, #nram(0)
    VSET $10, $2, #1              //@1
end:
    HALT
