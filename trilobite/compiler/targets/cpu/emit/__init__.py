"""What kernels compute, as LLVM text: scalar graphs as vector code, vectorised mathematical functions.

Enters: a `Host`, and what to compute. Leaves: text of LLVM modules. May import `native.host` and below. Read
`scalar.py` first; it writes with `native/llvm/text.py`.
"""
