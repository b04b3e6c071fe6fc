// A weight matrix that is larger than WRAM.
//! args: random:f32:131080
//! says: wram+0x0: bytes 0 to 524320 reach outside the wram of 524288 bytes
//! says: (beyond-wram.s:@1)
 .entry main
main:
    LI $10, #wram(0)
-   LI $1, #131080
+   LI $1, #131072
    MLOAD $10, $1, $0, #0         //@1
