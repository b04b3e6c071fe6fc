"""The one entry and the interpreters behind it: evaluate, record, tape, forward, batch; the same on regions.

Enters: a primitive and values of any kind. Leaves: what the highest interpreter among them makes of it. May
import `ir`'s graph, types and table, and `native`, which says who owns memory. Read `bind.py` first, then
`tape.py`; state lives in `cells.py` alone.
"""
