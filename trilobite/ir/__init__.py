"""The axis: a graph, what it means, and how it is differentiated, batched and recorded.

Enters: values and primitives, from the framework. Leaves: graphs, which every target reads. May import
`native` and `base`; it knows neither the framework nor any target. Read `graph.py` first, then
`transforms/bind.py`, then one family of `primitives`.
"""
