"""Operators of com.microsoft, one module per family.

Enters: nodes of that domain and their operands. Leaves: values. May import the operators of ONNX and what
they may. The families are loaded with the first node of the domain. Read `fused.py` first, then `masks.py`.
"""
