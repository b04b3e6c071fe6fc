// A word of the binary was damaged, and the checksum made to fit.
//! word: 1 0xfff8000000000000
//! says: the word 0xfff8000000000000 is no instruction: there is no opcode 0x1ff
//! says: instruction 1
 .entry main
main:
    SMOVE $1, #3
    SMOVE $2, #4
