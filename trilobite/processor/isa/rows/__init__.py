"""The instruction table, one module per family. A new row goes to its family's end: opcodes are places.

Enters: a meaning and operands. Leaves: rows. May import `processor.isa` alone. Read `scalar.py` first.
"""
