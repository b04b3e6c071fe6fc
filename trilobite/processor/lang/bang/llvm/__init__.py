"""A reader of LLVM's text form, as clang writes it for kernels: types, module, instructions, debug data.

Enters: the text of a `.ll` file. Leaves: a `Module` whose functions are parsed when they are asked for. It
does not verify what it reads (clang wrote it) and knows nothing of kernel IR. May import `processor.lang`,
`processor.isa` and `base`. Read `module.py` first.
"""
