"""LLVM IR to kernel IR: `module.py` begins at the entries, `function.py` walks, the others know one family each."""
