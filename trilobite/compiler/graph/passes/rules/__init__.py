"""Tables of rules, one module per family. What a rule is: `trilobite/compiler/graph/rewrite.py`."""
