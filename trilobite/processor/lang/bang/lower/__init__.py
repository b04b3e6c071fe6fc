"""LLVM IR to kernel IR: `module.py` begins at the entries, `function.py` walks, others know one family."""
