// Step 5: a pipeline of three stages. In step t a block is stored (t - 2), one loaded (t), one computed (t - 1).
//   $0 a [M][256]   $1 b [256][128]   $2 c [M][128]   $3 M
.entry matmul
.equ A, 128 * 256 * 4
.equ C, 128 * 128 * 4
matmul:
    LI     $10, #nram(0)                // a of this block, and of the other parity
    LI     $13, #nram(A)
    LI     $12, #nram(2 * A)            // c likewise
    LI     $14, #nram(2 * A + C)
    LI     $11, #wram(0)
    SREAD  $30, #taskDim
    SREAD  $31, #taskId
    SDIV   $32, $3, $30
    SMUL   $33, $31, $32
    SMUL   $34, $33, #1024
    SADD   $0, $0, $34
    SMUL   $34, $33, #512
    SADD   $2, $2, $34
    SMOVE  $20, #128
    SMOVE  $21, #128
    SMOVE  $22, #256
    SMOVE  $23, #128 * 256
    SMOVE  $24, #128 * 128
    SMOVE  $25, #256 * 128
    MLOAD  $11, $25, $1, #0
    SSHR   $40, $32, #7                 // n blocks
    SMOVE  $41, #0                      // t
step:
    SLT    $42, $41, #2
    CBNZ   #load, $42
    VSTORE $12, $24, $2, #0             // block t - 2
    SADD   $2, $2, #C
load:
    BGE    #compute, $41, $40
    VLOAD  $10, $23, $0, #0             // block t
    SADD   $0, $0, #A
compute:
    CBZ    #turn, $41
    BLT    #nothing, $40, $41
    MM     $14, $13, $11, $20, $60      // block t - 1
nothing:
turn:
    SYNC
    SMOVE  $50, $10                     // the buffers change parity
    SMOVE  $10, $13
    SMOVE  $13, $50
    SMOVE  $50, $12
    SMOVE  $12, $14
    SMOVE  $14, $50
    SADD   $41, $41, #1
    SADD   $43, $40, #2
    BLT    #step, $41, $43
