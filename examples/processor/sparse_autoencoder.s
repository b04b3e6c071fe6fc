// A sparse autoencoder, 320-200-320: code h = sigmoid(W x + b), reconstruction y = sigmoid(V h + c), and how far the
// code is from sparse: the sum of r log(r / h) + (1 - r) log((1 - r) / (1 - h)) with r = 0.05.
//   $0 input   $1 parameters: W b V c   $2 output: y [320], then the penalty
.entry sparse_autoencoder

.nram
x:    .space 320 * 4
h:    .space 200 * 4
b:    .space 320 * 4
e:    .space 320 * 4
d:    .space 320 * 4
p:    .space 64
.wram
w:    .space 320 * 200 * 4

.text
.macro LAYER to, from, outputs, inputs      // \to = sigmoid(W \from + b), and on to the next parameters
    MLOAD  $26, $12, $1, #0
    VLOAD  $22, \outputs, $1, #320 * 200 * 4
    MMV    $23, \outputs, $26, \from, \inputs
    VAV    $23, \outputs, $23, $22
    VEXP   $23, \outputs, $23
    VAS    $24, \outputs, $23, #1
    VDV    \to, \outputs, $23, $24
    SADD   $1, $1, #(320 * 200 + 200) * 4
.endm

sparse_autoencoder:
    LA     $20, x
    LA     $21, h
    LA     $22, b
    LA     $23, e
    LA     $24, d
    LA     $25, p
    LA     $26, w
    SMOVE  $10, #320
    SMOVE  $11, #200
    SMUL   $12, $10, $11
    VLOAD  $20, $10, $0, #0
    LAYER  $21, $20, $11, $10
    LAYER  $20, $21, $10, $11
    VSTORE $20, $10, $2, #0
    // the penalty: -r log h - (1 - r) log(1 - h), summed, and what depends on r alone
    VLOG   $23, $11, $21
    VMS    $23, $11, $23, #-0.05
    VMS    $24, $11, $21, #-1
    VAS    $24, $11, $24, #1
    VLOG   $24, $11, $24
    VMS    $24, $11, $24, #-0.95
    VAV    $23, $11, $23, $24
    VAS    $23, $11, $23, #-0.19851524334587257
    VSV    $24, $11, $23, $23
    VAS    $24, $11, $24, #1                // ones: a dot product with them is a sum
    VDP    $25, $11, $23, $24
    SMOVE  $13, #1
    VSTORE $25, $13, $2, #320 * 4
