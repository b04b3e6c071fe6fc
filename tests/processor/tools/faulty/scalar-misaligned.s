// A 4-byte load from an address that no 4 divides.
//! args: random:u8:16
//! says: gdram+0x100002 is not aligned to the 4 bytes of i32
//! says: instruction 0: SLOAD.i32 $1, $0, #2 (scalar-misaligned.s:@1)
 .entry main
main:
-   SLOAD.i32 $1, $0, #2          //@1
+   SLOAD.i32 $1, $0, #4
