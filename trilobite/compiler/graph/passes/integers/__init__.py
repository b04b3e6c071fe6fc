"""integers: products of dequantised bytes become products of the bytes themselves.

`find.py` is the pass; `forms.py` says in which forms it knows a value, `products.py` and `sums.py` write
products and round their sums.
"""

from trilobite.compiler.graph.passes.integers.find import integers

__all__ = ["integers"]
