// A union task diverges: core 0 comes to another barrier than the rest.
//! machine: dlp-m
//! task: union1 4
//! says: the union task diverges: cluster 0 core 0 waits here, cluster 0 core 1 at another barrier
 .entry main
main:
    SREAD $1, #coreId
    CBZ #zero, $1
    BARRIER.cluster
    HALT
zero:
-   BARRIER.chip
+   BARRIER.cluster
