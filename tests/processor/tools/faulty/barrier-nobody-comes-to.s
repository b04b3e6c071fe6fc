// Core 0 leaves before the barrier at which the others wait.
//! machine: dlp-m
//! task: union1 4
//! says: the barrier is deadlocked: cluster 0 core 1 waits for cluster 0 core 0, whose task has ended
//! says: BARRIER.cluster (barrier-nobody-comes-to.s:@1)
 .entry main
main:
    SREAD $1, #coreId
-   CBZ #end, $1
    BARRIER.cluster               //@1
end:
    HALT
