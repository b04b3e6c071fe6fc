"""Tensor instructions as machine code: one routine for each meaning, the same bits, no Python between."""
