"""integers: products of dequantised bytes become products of the bytes themselves.

`find.py` is the pass; `forms.py` says in which forms it knows a value, `products.py` and `sums.py` write
products and round their sums.

Enters: a graph with `quantise` and `dequantise`. Leaves: one whose products are of bytes. May import
`compiler.graph` and `ir`. Read `find.py` first.
"""

from trilobite.compiler.graph.passes.integers.find import integers

__all__ = ["integers"]
