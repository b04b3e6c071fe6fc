"""Functional execution, timing, energy.

Enters: a linked program, a machine, memory. Leaves: memory as the program left it, a trace, and from that
cycles and joules. May import `isa`, `machine` and `native`, and `tools` where a run makes its page; it knows
no language. Read `chip.py` first, then `core.py`; cycles are made in `timing`.
"""
