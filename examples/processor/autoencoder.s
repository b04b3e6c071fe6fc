// An autoencoder, 320-200-100-50-10: four sigmoid layers that squeeze the input to ten numbers.
// Sizes come from a table, so one loop serves every layer.
//   $0 input   $1 parameters: W b of every layer   $2 output
.entry autoencoder

.data
sizes: .word64 320, 200, 100, 50, 10, 0
.nram
x:    .space 320 * 4
b:    .space 200 * 4
e:    .space 200 * 4
d:    .space 200 * 4
.wram
w:    .space 320 * 200 * 4

.text
autoencoder:
    LA     $20, x
    LA     $21, w
    LA     $22, b
    LA     $23, e
    LA     $24, d
    LA     $5, sizes
    SLOAD  $11, $5, #0
    VLOAD  $20, $11, $0, #0
layer:
    SMOVE  $10, $11                         // what left the last layer enters this one
    SLOAD  $11, $5, #8
    SMUL   $12, $10, $11
    MLOAD  $21, $12, $1, #0
    SSHL   $13, $12, #2
    SADD   $1, $1, $13
    VLOAD  $22, $11, $1, #0
    SSHL   $13, $11, #2
    SADD   $1, $1, $13
    MMV    $23, $11, $21, $20, $10
    VAV    $23, $11, $23, $22
    VEXP   $23, $11, $23
    VAS    $24, $11, $23, #1
    VDV    $20, $11, $23, $24
    SADD   $5, $5, #8
    SLOAD  $14, $5, #8
    CB     #layer, $14                      // until the 0 behind the last size
    VSTORE $20, $11, $2, #0
