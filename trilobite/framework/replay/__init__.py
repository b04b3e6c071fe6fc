"""Small eager operations that come again: worked out once, replayed from then on.

Enters: calls of functions on arrays. Leaves: the same results, by a list of NumPy's calls or by rows of its
inner loops that machine code runs at once. May import what `framework` may. Read `plans.py` first, then
`calls.py` and `inner_loops.py`.
"""
