// Step 4: blocks of 256 rows over all cores; load, compute and store wait for each other.
//   $0 a [M][256]   $1 b [256][128]   $2 c [M][128]   $3 M
.entry matmul
matmul:
    LI     $10, #nram(0)
    LI     $11, #wram(0)
    LI     $12, #nram(262144)
    SREAD  $30, #taskDim
    SREAD  $31, #taskId
    SDIV   $32, $3, $30                 // rows of this task
    SMUL   $33, $31, $32
    SMUL   $34, $33, #1024
    SADD   $0, $0, $34
    SMUL   $34, $33, #512
    SADD   $2, $2, $34
    SMOVE  $20, #256                    // m, n, k of a block
    SMOVE  $21, #128
    SMOVE  $22, #256
    SMOVE  $23, #256 * 256
    SMOVE  $24, #256 * 128
    MLOAD  $11, $24, $1, #0
block:
    VLOAD  $10, $23, $0, #0
    SYNC
    MM     $12, $10, $11, $20, $60
    SYNC
    VSTORE $12, $24, $2, #0
    SYNC
    SADD   $0, $0, #256 * 1024
    SADD   $2, $2, #256 * 512
    SADD   $32, $32, #-256
    CB     #block, $32
