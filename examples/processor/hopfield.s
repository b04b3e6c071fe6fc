// A Hopfield net of 100 neurons: s = sign(W s) until nothing changes, at most $3 times.
//   $0 state of -1 and 1   $1 W [100][100]   $2 output   $3 most steps
.entry hopfield

.nram
s:    .space 100 * 4
t:    .space 100 * 4
z:    .space 100 * 4
q:    .space 64
.wram
w:    .space 100 * 100 * 4

.text
hopfield:
    LA     $20, s
    LA     $21, t
    LA     $22, z
    LA     $23, q
    LA     $24, w
    SMOVE  $10, #100
    SMUL   $11, $10, $10
    VLOAD  $20, $10, $0, #0
    MLOAD  $24, $11, $1, #0
    VSV    $22, $10, $20, $20               // zeros
step:
    MMV    $21, $10, $24, $20, $10
    VGT    $21, $10, $21, $22               // 1 where W s > 0
    VAV    $21, $10, $21, $21
    VAS    $21, $10, $21, #-1               // and -1 elsewhere
    VDP    $23, $10, $21, $20               // 100 if nothing changed
    VMOVE  $20, $10, $21
    SLOAD.f32 $30, $23, #0
    SE.f32 $31, $30, #100
    CBNZ   #stable, $31
    SADD   $3, $3, #-1
    CB     #step, $3
stable:
    VSTORE $20, $10, $2, #0
