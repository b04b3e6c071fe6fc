"""Kernel languages: one kernel IR, its front ends, and code generation to the ISA.

`types`, `ir`, `ops`, `intrinsics`, `builder`: the IR and how to write it. `text`, `parse`, `verify`,
`interpreter`: its text form, its rules, its meaning. `passes`, `codegen`: from IR to a program. `python`: the
front end of Python kernels. A front end builds a `KernelModule` and hands it to `codegen.compile_module`.

Enters: sources, or calls of `builder`. Leaves: programs of the ISA. May import `isa`, `machine`, `sim`,
`native` and `base`; `device` within functions, for kernels that launch themselves. Read `ir.py` first, then
`builder.py`.
"""
