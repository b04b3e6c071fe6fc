"""LLVM IR to kernel IR: `module.py` begins at the entries, `function.py` walks, others know one family.

Enters: a `Module` of LLVM IR. Leaves: a `KernelModule`. May import `processor.lang`, `processor.isa`,
`processor.machine` and `base`. Read `module.py` first, then `dispatch.py`.
"""
