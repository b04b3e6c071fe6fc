"""Matrix products: fusions of kind "dot"; `lower.py` first."""
