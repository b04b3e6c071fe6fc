"""Symbolic sizes at their bounds: one program of known sizes that serves every size.

Enters: a graph with symbolic sizes. Leaves: a graph in which every size is the largest it can be, with one
more input a symbol: how large it is in this run. A value is right where its indices lie below the real sizes
and anything at all behind them; whoever would see what lies behind (a sum, a product over that axis, an edge
of padding) gets it replaced by what changes nothing. A graph with an equation that has no such form is named
with the reason: its sizes are compiled one by one.

May import `compiler.graph` and `ir`, no target. Read `scope.py` first, then `moves.py`.
"""

from trilobite.compiler.graph.bounded.bound import Bounded, bound

__all__ = ["Bounded", "bound"]
