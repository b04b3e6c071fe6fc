"""Tensor instructions as machine code: one routine for each meaning, the same bits, no Python between.

Enters: an instruction's row and formats. Leaves: LLVM text. May import `processor.isa`, `native` and `base`.
Read `choice.py` first, then `vector.py`.
"""
