"""Kernels as LLVM text: the builder, scalar graphs as vector code, vectorised mathematical functions.

Enters: a `Host`, and what to compute. Leaves: text of LLVM modules. May import `native.host` and below. Read
`text.py` first.
"""
