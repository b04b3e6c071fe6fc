// Each call pushes a frame; 128 KiB of stack hold 8192 of 16 bytes.
//! args: 9000
//! twin args: 8000
//! says: stack overflow: nram+0x5fff0 is outside the room of the stack
//! says: SSTORE.i64 $60, $62, #0 (recursion-without-end.s:@1)
//! says: expected: an address from nram+0x60000 to nram+0x80000
 .entry main
main:
    CALL $60, #down
    RET $63
down:
    SADD $62, $62, #-16
    SSTORE.i64 $60, $62, #0       //@1
    SADD $0, $0, #-1
    CBZ #up, $0
    CALL $60, #down
up:
    SLOAD.i64 $60, $62, #0
    SADD $62, $62, #16
    RET $60
