// Static arrays that leave no room for the stack.
//! says: static arrays need 524288 bytes of nram, dlp-m has 393216
//! says: expected: at most 393216 bytes
 .nram
-a: .space 512 * 1024
+a: .space 384 * 1024
 .text
 .entry main
main:
    HALT
