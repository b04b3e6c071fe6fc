// A self-organising map of 36 neurons with 64 inputs: for every sample the nearest neuron moves towards it.
//   $0 samples [count][64]   $1 neurons [36][64], changed in place   $2 count   $3 rate (fp32)   $4 winners [count]
.entry som

.nram
m:    .space 36 * 64 * 4
x:    .space 64 * 4
d:    .space 64 * 4
q:    .space 64

.text
som:
    LA     $20, m
    LA     $21, x
    LA     $22, d
    LA     $23, q
    SMOVE  $10, #64
    SMOVE  $11, #64 * 36
    VLOAD  $20, $11, $1, #0
sample:
    VLOAD  $21, $10, $0, #0
    SMOVE  $30, $20                         // the neuron to look at
    SMOVE  $31, #0                          // its number
    SMOVE.f32 $32, #3.4e38                  // the least distance so far
neuron:
    VSV    $22, $10, $21, $30
    VDP    $23, $10, $22, $22               // |x - m|^2
    SLOAD.f32 $35, $23, #0
    SLT.f32 $36, $35, $32
    SSEL   $32, $36, $35, $32
    SSEL   $33, $36, $30, $33               // the winner
    SSEL   $34, $36, $31, $34               // its number
    SADD   $30, $30, #64 * 4
    SADD   $31, $31, #1
    SADD   $37, $31, #-36
    CBNZ   #neuron, $37
    VSV    $22, $10, $21, $33
    VMS    $22, $10, $22, $3
    VAV    $33, $10, $33, $22               // m += rate (x - m)
    SSTORE.i32 $34, $4, #0
    SADD   $4, $4, #4
    SADD   $0, $0, #64 * 4
    SADD   $2, $2, #-1
    CB     #sample, $2
    VSTORE $20, $11, $1, #0
