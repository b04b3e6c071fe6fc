"""The only user of llvmlite: LLVM text in, machine code out. Imports base alone."""
