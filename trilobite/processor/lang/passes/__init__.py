"""Passes over kernel IR, one file each. A pass changes a function in place and says whether it did.

Enters: a function of kernel IR. Leaves: the same one, changed. May import `processor.lang`, `processor.isa`,
`processor.machine` and `base`. Read `simplify.py` first.
"""
