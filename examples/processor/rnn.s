// A recurrent network, 26-93-61: h = sigmoid(U x + V h + b), y = sigmoid(W h + c), for every step of a sequence.
//   $0 inputs [steps][26]   $1 parameters: U V b W c   $2 outputs [steps][61]   $3 steps
.entry rnn

.nram
x:    .space 26 * 4
h:    .space 93 * 4
b:    .space 93 * 4
c:    .space 61 * 4
s:    .space 93 * 4
t:    .space 93 * 4
.wram
u:    .space 93 * 26 * 4
v:    .space 93 * 93 * 4
w:    .space 61 * 93 * 4

.text
.macro SIGMOID to, size                     // \to = sigmoid(s)
    VEXP   $24, \size, $24
    VAS    $25, \size, $24, #1
    VDV    \to, \size, $24, $25
.endm

rnn:
    LA     $20, x
    LA     $21, h
    LA     $22, b
    LA     $23, c
    LA     $24, s
    LA     $25, t
    LA     $26, u
    LA     $27, v
    LA     $28, w
    SMOVE  $10, #26
    SMOVE  $11, #93
    SMOVE  $12, #61
    SMUL   $13, $11, $10
    SMUL   $14, $11, $11
    SMUL   $15, $12, $11
    MLOAD  $26, $13, $1, #0
    MLOAD  $27, $14, $1, #93 * 26 * 4
    VLOAD  $22, $11, $1, #(93 * 26 + 93 * 93) * 4
    MLOAD  $28, $15, $1, #(93 * 26 + 93 * 93 + 93) * 4
    VLOAD  $23, $12, $1, #(93 * 26 + 93 * 93 + 93 + 61 * 93) * 4
    VSV    $21, $11, $22, $22               // h = 0
step:
    VLOAD  $20, $10, $0, #0
    MMV    $24, $11, $26, $20, $10          // U x
    MMV    $25, $11, $27, $21, $11          // V h
    VAV    $24, $11, $24, $25
    VAV    $24, $11, $24, $22
    SIGMOID $21, $11                        // h
    MMV    $24, $12, $28, $21, $11          // W h
    VAV    $24, $12, $24, $23
    SIGMOID $24, $12                        // y
    VSTORE $24, $12, $2, #0
    SADD   $0, $0, #26 * 4
    SADD   $2, $2, #61 * 4
    SADD   $3, $3, #-1
    CB     #step, $3
