"""Graphs to graphs: what every target can use.

Enters: a recorded graph. Leaves: a graph of the same meaning, at the end one of fusions. May import `ir` and
below; it knows neither programs nor targets: what differs between machines, a target hands in (`Options`,
`FusionPolicy`). Read `pipeline.py` first, then `passes/__init__.py`, then `fuse.py`.
"""
