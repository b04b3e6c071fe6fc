// A Boltzmann machine, 500-500: one update of the hidden units. Unit i is on if a random number exceeds
// sigmoid(W v + L h + b), the listing of the ISA's paper.
//   $0 visible units   $1 hidden units   $2 W [500][500]   $3 L [500][500]   $4 b   $5 probabilities   $6 output
.entry boltzmann
.format f16                                 // in fp32 a matrix would not fit into WRAM

.nram
v:    .space 500 * 2
h:    .space 500 * 2
b:    .space 500 * 2
s:    .space 500 * 2
t:    .space 500 * 2
r:    .space 500 * 2
.wram
w:    .space 500 * 500 * 2

.text
boltzmann:
    LA     $20, v
    LA     $21, h
    LA     $22, b
    LA     $23, s
    LA     $24, t
    LA     $25, r
    LA     $26, w
    SMOVE  $10, #500
    SMUL   $11, $10, $10
    VLOAD  $20, $10, $0, #0
    VLOAD  $21, $10, $1, #0
    VLOAD  $22, $10, $4, #0
    MLOAD  $26, $11, $2, #0
    MMV    $23, $10, $26, $20, $10          // W v
    MLOAD  $26, $11, $3, #0
    MMV    $24, $10, $26, $21, $10          // L h
    VAV    $23, $10, $23, $24
    VAV    $23, $10, $23, $22
    VEXP   $23, $10, $23
    VAS    $24, $10, $23, #1
    VDV    $23, $10, $23, $24               // y = sigmoid(W v + L h + b)
    RV     $25, $10                         // r
    VGT    $21, $10, $25, $23               // h = r > y
    VSTORE $23, $10, $5, #0
    VSTORE $21, $10, $6, #0
