// The memory core comes to a barrier of the compute cores.
//! machine: dlp-m
//! task: union1 4
//! says: this core is not invited to the barrier it waits at
//! says: cluster 0 memory core
 .entry main
main:
    SREAD $1, #isMpu
    CBNZ #memory, $1
    BARRIER.cluster.ipu
    HALT
memory:
-   BARRIER.cluster.ipu
+   BARRIER.cluster.mpu
