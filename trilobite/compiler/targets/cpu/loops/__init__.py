"""Loop nests over buffers: their IR, schedules, dependence tests, and emission as LLVM and C.

Enters: a nest and a schedule. Leaves: text. May import `emit`, `native` and `ir`, whose graphs
are the bodies of statements. Read `ir.py` first, then `schedule.py`, then `emit_llvm.py`.
"""
