// Step 6: five stages through SRAM. The memory core loads a (t) and stores c (t - 4) for its four cores; a core takes
// its quarter into NRAM (t - 1), computes (t - 2) and puts c back into SRAM (t - 3). A barrier ends every step.
//   $0 a [M][256]   $1 b [256][128]   $2 c [M][128]   $3 M     launched as union1
.entry matmul
.equ A, 128 * 256 * 4                   // bytes of a core's block of a, and of c
.equ C, 128 * 128 * 4
matmul:
    SREAD  $5, #isMpu
    SREAD  $6, #coreId
    SREAD  $7, #coreDim
    SREAD  $30, #taskDim
    SREAD  $31, #taskId
    SDIV   $30, $30, $7                 // clusters
    SDIV   $31, $31, $7                 // this one
    SDIV   $32, $3, $30                 // rows of a cluster
    SMUL   $33, $31, $32
    SMUL   $34, $33, #1024
    SADD   $0, $0, $34
    SMUL   $34, $33, #512
    SADD   $2, $2, $34
    SSHR   $40, $32, #9                 // n steps of four blocks of 128 rows
    SADD   $44, $40, #4
    LI     $50, #sram(0)                // a, even and odd; c, even and odd
    LI     $51, #sram(4 * A)
    LI     $52, #sram(8 * A)
    LI     $53, #sram(8 * A + 4 * C)
    SMOVE  $60, #4 * A
    SMOVE  $61, #4 * C
    CBNZ   #begin, $5
    LI     $10, #nram(0)                // a, c, each even and odd
    LI     $13, #nram(A)
    LI     $12, #nram(2 * A)
    LI     $14, #nram(2 * A + C)
    LI     $11, #wram(0)
    SMOVE  $20, #128
    SMOVE  $21, #128
    SMOVE  $22, #256
    SMOVE  $23, #A
    SMOVE  $24, #C
    SMOVE  $25, #256 * 128
    MLOAD  $11, $25, $1, #0
    SMUL   $26, $6, $23                 // this core's quarter in SRAM
    SMUL   $27, $6, $24
begin:
    SMOVE  $41, #0                      // t
step:
    CBZ    #core, $5
    BGE    #drain, $41, $40             // the memory core: a (t)
    COPY   $50, $0, $60
    SADD   $0, $0, #4 * A
drain:
    SLT    $42, $41, #4                 // c (t - 4)
    CBNZ   #meet, $42
    COPY   $2, $52, $61
    SADD   $2, $2, #4 * C
    JUMP   #meet
core:
    SADD   $43, $41, #-1                // a (t - 1)
    BGEU   #compute, $43, $40
    SADD   $28, $51, $26
    COPY   $10, $28, $23
compute:
    SADD   $43, $41, #-2                // (t - 2)
    BGEU   #put, $43, $40
    MM     $14, $13, $11, $20, $62
put:
    SADD   $43, $41, #-3                // c (t - 3)
    BGEU   #meet, $43, $40
    SADD   $28, $53, $27
    COPY   $28, $12, $24
meet:
    SYNC
    BARRIER.cluster
    SMOVE  $55, $50                     // everything changes parity
    SMOVE  $50, $51
    SMOVE  $51, $55
    SMOVE  $55, $52
    SMOVE  $52, $53
    SMOVE  $53, $55
    SMOVE  $55, $10
    SMOVE  $10, $13
    SMOVE  $13, $55
    SMOVE  $55, $12
    SMOVE  $12, $14
    SMOVE  $14, $55
    SADD   $41, $41, #1
    BLT    #step, $41, $44
