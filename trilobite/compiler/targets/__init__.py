"""Targets: what runs a graph.

Enters: a graph and what its caller knows of it (`Usage`). Leaves: an `Executable`. May import
`compiler.program`, `compiler.graph` and below, and `dlp` the `processor`; a target knows no other target, and
nobody above knows any of them by more than its name. Read `contract.py` first, then `reference.py`, the
shortest target; `registry.py` finds targets by name.
"""
