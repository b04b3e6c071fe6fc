// An indirect jump with a number that is no instruction's.
//! says: the program jumps to instruction 40, outside its
//! says: JUMP $1 (jump-out-of-the-program.s:@1)
 .entry main
main:
-   SMOVE $1, #40
+   SMOVE $1, #2
    JUMP $1                       //@1
    HALT
