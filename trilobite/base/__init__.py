"""What everyone may import: dtypes and rounding, errors, source locations, pytrees.

Enters: nothing. Leaves: the words that all rooms share. May import no other room. Read `errors.py` first.
"""
