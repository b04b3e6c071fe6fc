"""Sharding: one graph of whole tensors becomes each rank's graph of parts, with collectives where they meet.

Enters: a graph, a mesh, where the inputs lie. Leaves: this rank's graph, where the outputs lie, and which
collective stands where, how many bytes it moves, and why. Read in this order: `placements.py` (what a split
is), `rules.py` (what each primitive can do with one), `conversion.py` (from one placement to another),
`partition.py` (the walk), `regions.py` (loops and branches), then `tensors.py` and `function.py`, which is
what users see.
"""
