"""Elementwise work on tiles in NRAM: formats, casts, one row of instructions per primitive, chains.

Enters: a chain of elementwise equations and where its operands lie. Leaves: instructions in a function that
somebody else has begun. `rows.py` is the table, `chain.py` walks it. May import `writer` and `primitives` of
this target, `processor` and `ir`. Read `rows.py` first, then `chain.py`.
"""
