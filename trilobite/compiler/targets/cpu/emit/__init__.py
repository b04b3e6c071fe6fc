"""Kernels as LLVM text: the builder, scalar graphs as vector code, and vectorised mathematical functions."""
