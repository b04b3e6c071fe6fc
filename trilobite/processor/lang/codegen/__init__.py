"""From kernel IR to a program of the ISA: legal operands, registers, instructions, tables for the tools.

Enters: a verified function of kernel IR. Leaves: sections to link. May import `lang`'s IR, `isa`, `machine`
and `sim`, for the places of memories. Read `compile.py` first.
"""
