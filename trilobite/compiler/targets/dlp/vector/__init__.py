"""Elementwise work on tiles in NRAM: formats, casts, one row of instructions per primitive, chains."""
