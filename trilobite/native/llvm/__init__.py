"""The writer of LLVM text: what the CPU's kernels, the simulator's code and typed Python are written with.

Enters: calls in the order of execution. Leaves: text. `text.py` is a whole kernel; `arithmetic`, `memory` and
`flow` are what any function is made of, `types` the words and constants of LLVM. It compiles nothing. May
import `base` and `native.host`. Read `text.py` first.
"""
