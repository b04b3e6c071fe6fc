// A move on the chip is as asynchronous as a load.
//! args: random:f32:64
//! says: read after write without order: nram+0x2000 to +0x2100
//! says: move queue, instruction
//! says: remedy: put SYNC.move between them
 .entry main
main:
    LI $10, #nram(0)
    LI $11, #nram(0x2000)
    SMOVE $1, #64
    VLOAD $10, $1, $0, #0
    SYNC
    VMOVE $11, $1, $10
+   SYNC.move
    VABS $11, $1, $11
