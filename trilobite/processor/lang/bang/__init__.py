"""BANG C: real `.mlu` sources through a real clang to kernel IR.

`source.compile_file` is the way in; `kernel.BangKernel` is what `Device.launch` takes with options of its
own; `cnrt` is a host API in the manner of CNRT. `table` holds every intrinsic once: declaration, contract,
meaning. `clang` runs the compiler, `rewrite` turns BANG C into C++, `llvm` reads what clang wrote, `lower`
makes kernel IR of it. Nothing but `cnrt` knows a device.

Enters: a source. Leaves: a `KernelModule`. May import `processor.lang`, `isa`, `machine` and `sim` of the
processor, `native` and `base`; `device` within functions. Read `source.py` first.
"""
