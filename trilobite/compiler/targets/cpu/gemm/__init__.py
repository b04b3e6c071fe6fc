"""Matrix products on the CPU: fusions of kind "dot"; `lower.py` first."""
