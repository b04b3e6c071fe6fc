"""Linear algebra on the CPU: fusions of kind "linalg", one `lu` or `triangular_solve`; `lower.py` first."""
