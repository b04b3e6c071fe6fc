"""Operators of ai.onnx.ml, one module per family: trees, linear models, features.

Enters: nodes of that domain and their operands. Leaves: values. They run on the host, for labels may be
strings. May import what the operators of ONNX beside it may. Read `models.py` first, then `trees.py`.
"""
