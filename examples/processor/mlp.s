// A multi-layer perceptron, 64-150-150-14: every layer is y = sigmoid(W x + b).
//   $0 input   $1 parameters: W1 b1 W2 b2 W3 b3, one behind the other   $2 output
.entry mlp

.nram
x:    .space 150 * 4        // what enters a layer, and then what leaves it
b:    .space 150 * 4
e:    .space 150 * 4
d:    .space 150 * 4
.wram
w:    .space 150 * 150 * 4

.text
.macro LAYER inputs, outputs
    SMOVE  $10, #\inputs
    SMOVE  $11, #\outputs
    SMUL   $12, $10, $11
    MLOAD  $21, $12, $1, #0             // W
    SADD   $1, $1, #\inputs * \outputs * 4
    VLOAD  $22, $11, $1, #0             // b
    SADD   $1, $1, #\outputs * 4
    MMV    $23, $11, $21, $20, $10      // W x
    VAV    $23, $11, $23, $22           // W x + b
    VEXP   $23, $11, $23                // e^z
    VAS    $24, $11, $23, #1            // 1 + e^z
    VDV    $20, $11, $23, $24           // y
.endm

mlp:
    LA     $20, x
    LA     $21, w
    LA     $22, b
    LA     $23, e
    LA     $24, d
    SMOVE  $10, #64
    VLOAD  $20, $10, $0, #0
    LAYER  64, 150
    LAYER  150, 150
    LAYER  150, 14
    VSTORE $20, $11, $2, #0
