"""Cycles of a trace: closed forms (T0), queues with contention (T1, the default), a per-cycle array (T2)."""
