"""Python kernels: a decorated Python function to kernel IR, or run as it stands on NumPy (`interpret`).

Every operation (`dlp.add`, `dlp.copy`, ...) is written once, against a `Context`: `building` turns it into
IR, `host` executes it at once. `walker` goes through the syntax tree of the user's function.

Enters: a decorated function. Leaves: a `KernelModule`, or its effect on memory. May import `processor.lang`,
`isa`, `machine` and `sim` of the processor and `base`; `device` within functions. Read `kernel.py` first,
then `walker.py`.
"""
