// A long short-term memory, 26-93-61: gates i, f, o and candidate g from [x, h], c = f c + i g, h = o tanh(c),
// and y = sigmoid(W h + d) for every step of a sequence.
//   $0 inputs [steps][26]   $1 parameters: four times (A [93][119], a [93]) for i f o g, then W d
//   $2 outputs [steps][61]  $3 steps
.entry lstm
.equ GATE, (93 * 119 + 93) * 4              // bytes of one gate's parameters

.nram
xh:   .space 119 * 4                        // x, and behind it h
gi:   .space 93 * 4
gf:   .space 93 * 4
go:   .space 93 * 4
gg:   .space 93 * 4
c:    .space 93 * 4
a:    .space 93 * 4
t:    .space 93 * 4
y:    .space 61 * 4
.wram
m:    .space 93 * 119 * 4

.text
.macro SIGMOID v, size                      // \v = sigmoid(\v)
    VEXP   \v, \size, \v
    VAS    $27, \size, \v, #1
    VDV    \v, \size, \v, $27
.endm

.macro TANH to, from, size                  // \to = 2 sigmoid(2 \from) - 1
    VAV    \to, \size, \from, \from
    SIGMOID \to, \size
    VAV    \to, \size, \to, \to
    VAS    \to, \size, \to, #-1
.endm

.macro AFFINE v, number                     // \v = A [x, h] + a of one gate
    MLOAD  $28, $13, $1, #\number * GATE
    VLOAD  $26, $11, $1, #\number * GATE + 93 * 119 * 4
    MMV    \v, $11, $28, $20, $12
    VAV    \v, $11, \v, $26
.endm

lstm:
    LA     $20, xh
    LA     $21, gi
    LA     $22, gf
    LA     $23, go
    LA     $24, gg
    LA     $25, c
    LA     $26, a
    LA     $27, t
    LA     $28, m
    LA     $29, y
    SADD   $19, $20, #26 * 4                // h
    SMOVE  $10, #26
    SMOVE  $11, #93
    SMOVE  $12, #119
    SMUL   $13, $11, $12
    SMOVE  $14, #61
    SMUL   $15, $14, $11
    VLOAD  $25, $11, $1, #0
    VSV    $25, $11, $25, $25               // c = 0
    VMOVE  $19, $11, $25                    // h = 0
step:
    VLOAD  $20, $10, $0, #0
    AFFINE $21, 0
    SIGMOID $21, $11                        // i
    AFFINE $22, 1
    SIGMOID $22, $11                        // f
    AFFINE $23, 2
    SIGMOID $23, $11                        // o
    AFFINE $24, 3
    TANH   $24, $24, $11                    // g
    VMV    $25, $11, $25, $22               // f c
    VMV    $24, $11, $24, $21               // i g
    VAV    $25, $11, $25, $24               // c
    TANH   $24, $25, $11
    VMV    $19, $11, $24, $23               // h = o tanh(c)
    MLOAD  $28, $15, $1, #4 * GATE
    VLOAD  $26, $14, $1, #4 * GATE + 61 * 93 * 4
    MMV    $29, $14, $28, $19, $11
    VAV    $29, $14, $29, $26
    SIGMOID $29, $14
    VSTORE $29, $14, $2, #0
    SADD   $0, $0, #26 * 4
    SADD   $2, $2, #61 * 4
    SADD   $3, $3, #-1
    CB     #step, $3
