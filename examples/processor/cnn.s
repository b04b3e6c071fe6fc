// A convolutional network of LeNet-5's shape: 32x32 - 6@28x28 - 6@14x14 - 16@10x10 - 16@5x5 - 120 - 84 - 10.
// Images lie as [row][column][channel], filters as [output][row][column][input]. Convolutions and full layers end in
// a sigmoid, pooling takes the maximum.
//   $0 image   $1 parameters, filters and biases in the order of the layers   $2 output
.entry cnn

.nram
image:  .space 32 * 32 * 4
one:    .space 28 * 28 * 6 * 4
two:    .space 14 * 14 * 6 * 4
three:  .space 10 * 10 * 16 * 4
four:   .space 5 * 5 * 16 * 4
window: .space 5 * 5 * 6 * 4
bias:   .space 120 * 4
e:      .space 28 * 28 * 6 * 4
.wram
filter: .space 400 * 120 * 4

.text
// $21 filter, $22 bias: the next parameters
.macro PARAMETERS inputs, outputs
    SMOVE  $11, #\outputs
    SMOVE  $12, #\inputs * \outputs
    MLOAD  $21, $12, $1, #0
    SADD   $1, $1, #\inputs * \outputs * 4
    VLOAD  $22, $11, $1, #0
    SADD   $1, $1, #\outputs * 4
.endm

// $24 = sigmoid($24) over `count` values
.macro SIGMOID count
    SMOVE  $15, #\count
    VEXP   $24, $15, $24
    VAS    $25, $15, $24, #1
    VDV    $24, $15, $24, $25
.endm

// $24 [size][size][outputs] = sigmoid of the 5x5 convolution of $20 [size + 4][size + 4][inputs]
.macro CONVOLVE size, inputs, outputs
    PARAMETERS 25 * \inputs, \outputs
    SMOVE  $10, #25 * \inputs
    SMOVE  $13, #5 * \inputs                // a row of the window lies together
    SMOVE  $30, $20
    SMOVE  $34, $24
    SMOVE  $40, #\size
row\@:
    SMOVE  $41, #\size
column\@:
    SMOVE  $31, $30
    SMOVE  $32, $23
    SMOVE  $42, #5
gather\@:
    VMOVE  $32, $13, $31                    // five rows make the window
    SADD   $31, $31, #(\size + 4) * \inputs * 4
    SADD   $32, $32, #5 * \inputs * 4
    SADD   $42, $42, #-1
    CB     #gather\@, $42
    MMV    $34, $11, $21, $23, $10          // all outputs of this place
    VAV    $34, $11, $34, $22
    SADD   $34, $34, #\outputs * 4
    SADD   $30, $30, #\inputs * 4
    SADD   $41, $41, #-1
    CB     #column\@, $41
    SADD   $30, $30, #4 * \inputs * 4       // skip the margin to the next row
    SADD   $40, $40, #-1
    CB     #row\@, $40
    SIGMOID \size * \size * \outputs
.endm

// $20 [size][size][channels] = the largest of 2x2 places of $24
.macro POOL size, channels
    SMOVE  $11, #\channels
    SMOVE  $30, $24
    SMOVE  $34, $20
    SMOVE  $40, #\size
row\@:
    SMOVE  $41, #\size
column\@:
    SADD   $31, $30, #\channels * 4
    VGTM   $34, $11, $30, $31
    SADD   $31, $31, #(2 * \size - 1) * \channels * 4
    VGTM   $34, $11, $34, $31
    SADD   $31, $31, #\channels * 4
    VGTM   $34, $11, $34, $31
    SADD   $34, $34, #\channels * 4
    SADD   $30, $30, #2 * \channels * 4
    SADD   $41, $41, #-1
    CB     #column\@, $41
    SADD   $30, $30, #2 * \size * \channels * 4
    SADD   $40, $40, #-1
    CB     #row\@, $40
.endm

// $24 = sigmoid(W $20 + b)
.macro FULL inputs, outputs
    PARAMETERS \inputs, \outputs
    SMOVE  $10, #\inputs
    MMV    $24, $11, $21, $20, $10
    VAV    $24, $11, $24, $22
    SIGMOID \outputs
.endm

cnn:
    LA     $20, image
    LA     $21, filter
    LA     $22, bias
    LA     $23, window
    LA     $24, one
    LA     $25, e
    SMOVE  $10, #32 * 32
    VLOAD  $20, $10, $0, #0
    CONVOLVE 28, 1, 6
    LA     $20, two
    POOL   14, 6
    LA     $24, three
    CONVOLVE 10, 6, 16
    LA     $20, four
    POOL   5, 16
    LA     $24, one
    FULL   400, 120
    SMOVE  $20, $24
    LA     $24, two
    FULL   120, 84
    SMOVE  $20, $24
    LA     $24, one
    FULL   84, 10
    VSTORE $24, $11, $2, #0
