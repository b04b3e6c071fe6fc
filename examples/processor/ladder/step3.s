// Step 3: the matrix unit on one core.
//   $0 a [M][K]   $1 b [K][N]   $2 c [M][N]   $3 M   $4 N   $5 K
.entry matmul
matmul:
    LI     $10, #nram(0)
    LI     $11, #wram(0)
    LI     $12, #nram(262144)
    SMUL   $20, $3, $5
    SMUL   $21, $5, $4
    SMUL   $22, $3, $4
    VLOAD  $10, $20, $0, #0
    MLOAD  $11, $21, $1, #0
    SYNC
    MM     $12, $10, $11, $3, $6
    SYNC
    VSTORE $12, $22, $2, #0
    SYNC
