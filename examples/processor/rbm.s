// A restricted Boltzmann machine, 500-500: one step of Gibbs sampling, h from v and then v from h.
// The one matrix serves both ways: MMV reads it by rows, VMM by columns.
//   $0 visible units   $1 W [hidden][visible]   $2 b of hidden   $3 c of visible   $4 output h   $5 output v
.entry rbm
.format f16

.nram
v:    .space 500 * 2
h:    .space 500 * 2
b:    .space 500 * 2
c:    .space 500 * 2
s:    .space 500 * 2
t:    .space 500 * 2
.wram
w:    .space 500 * 500 * 2

.text
.macro SAMPLE to, bias                      // \to = random < sigmoid(s + bias)
    VAV    $24, $10, $24, \bias
    VEXP   $24, $10, $24
    VAS    $25, $10, $24, #1
    VDV    $24, $10, $24, $25
    RV     $25, $10
    VGT    \to, $10, $24, $25
.endm

rbm:
    LA     $20, v
    LA     $21, h
    LA     $22, b
    LA     $23, c
    LA     $24, s
    LA     $25, t
    LA     $26, w
    SMOVE  $10, #500
    SMUL   $11, $10, $10
    VLOAD  $20, $10, $0, #0
    MLOAD  $26, $11, $1, #0
    VLOAD  $22, $10, $2, #0
    VLOAD  $23, $10, $3, #0
    MMV    $24, $10, $26, $20, $10          // W v
    SAMPLE $21, $22
    VSTORE $21, $10, $4, #0
    VMM    $24, $10, $21, $26, $10          // h W
    SAMPLE $20, $23
    VSTORE $20, $10, $5, #0
