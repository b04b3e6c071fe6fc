"""The target `dlp`: graphs to programs of the deep-learning processor.

Enters: a graph and a machine, through `target.py`. Leaves: an `Executable`: one binary, the weights it keeps
on the device, and of each call cycles, joules and the timeline. May import the `contract` and its `profiles`,
`compiler.graph`, `ir`, `native` and `processor`. Read `target.py` first, then `stages.py` (the way of a
graph), `groups.py` (which equations become one function), `lower.py` (who writes which) and `network.py` (the
entry that calls them all).
"""
