"""Model graphs as lists of steps: compiled graphs, and operations on the host between them.

Enters: a graph of ONNX nodes whose operators are all known. Leaves: a `Program`. Only here are strings,
sequences, optionals and shapes that depend on values known. `program.py` first, then `partition.py` and
`steps.py`.
"""
