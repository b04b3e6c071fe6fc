// Step 1 and 2 of the matmul ladder: three scalar loops. With $6 = 0 the operands stay in DRAM, otherwise they are
// copied to NRAM first.
//   $0 a [M][K]   $1 b [K][N]   $2 c [M][N]   $3 M   $4 N   $5 K   $6 whether to copy
.entry matmul
matmul:
    CBZ    #start, $6
    LI     $10, #nram(0)
    LI     $11, #nram(131072)
    LI     $12, #nram(262144)
    SMUL   $20, $3, $5
    SSHL   $20, $20, #2
    COPY   $10, $0, $20
    SMUL   $21, $5, $4
    SSHL   $21, $21, #2
    COPY   $11, $1, $21
    SYNC
    SMOVE  $30, $2
    SMOVE  $0, $10
    SMOVE  $1, $11
    SMOVE  $2, $12
start:
    SSHL   $13, $4, #2                  // bytes of a row of b
    SMOVE  $40, $3
row:
    SMOVE  $41, $4
    SMOVE  $16, $1
column:
    SMOVE  $14, $0
    SMOVE  $15, $16
    SMOVE  $42, $5
    SMOVE  $17, #0
term:
    SLOAD.f32 $18, $14, #0
    SLOAD.f32 $19, $15, #0
    SFMA.f32 $17, $18, $19, $17
    SADD   $14, $14, #4
    SADD   $15, $15, $13
    SADD   $42, $42, #-1
    CB     #term, $42
    SSTORE.f32 $17, $2, #0
    SADD   $2, $2, #4
    SADD   $16, $16, #4
    SADD   $41, $41, #-1
    CB     #column, $41
    SMOVE  $0, $14
    SADD   $40, $40, #-1
    CB     #row, $40
    CBZ    #done, $6
    SMUL   $22, $3, $4
    SSHL   $22, $22, #2
    COPY   $30, $12, $22
    SYNC
done:
    HALT
