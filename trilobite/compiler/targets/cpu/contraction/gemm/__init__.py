"""Matrix products: fusions of kind "dot".

Enters: a region whose root is a product. Leaves: kernels and steps. May import what `contraction` may. Read
`lower.py` first, then `blocked.py`.
"""
