"""Cycles of a trace: closed forms (T0), queues with contention (T1, the default), a per-cycle array (T2).

Enters: a machine and a trace. Leaves: a `Timeline`. May import what `sim` may. Read `stepping.py` first:
it is what `native.py` runs.
"""
