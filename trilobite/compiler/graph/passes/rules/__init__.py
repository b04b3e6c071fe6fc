"""Tables of rules, one module per family. What a rule is: `trilobite/compiler/graph/rewrite.py`.

Enters: an equation and what is known of its operands. Leaves: what stands in its place, or nothing. May
import `compiler.graph` and `ir`. Read `arithmetic.py` first.
"""
