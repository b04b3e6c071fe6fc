"""Kernels that are no contractions: passes over vectors, moves of data, reductions, gathers, sorts."""
