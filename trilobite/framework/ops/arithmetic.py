"""Elementwise operations."""

from __future__ import annotations

from trilobite.framework.ops.meeting import binary, unary
from trilobite.ir.primitives import table

G = "elementwise"
add = binary(G, "add", table["add"], methods=("add", "__add__"))
subtract = binary(G, "subtract", table["sub"], methods=("sub", "__sub__"))
multiply = binary(G, "multiply", table["mul"], methods=("mul", "__mul__"))
divide = binary(G, "divide", table["div"], methods=("div", "__truediv__"))
pow = binary(G, "pow", table["pow"], methods=("pow", "__pow__"))
maximum = binary(G, "maximum", table["maximum"])
minimum = binary(G, "minimum", table["minimum"])
equal = binary(G, "equal", table["eq"], methods=("eq", "__eq__"))
not_equal = binary(G, "not_equal", table["ne"], methods=("ne", "__ne__"))
less = binary(G, "less", table["lt"], methods=("lt", "__lt__"))
less_equal = binary(G, "less_equal", table["le"], methods=("le", "__le__"))
greater = binary(G, "greater", table["gt"], methods=("gt", "__gt__"))
greater_equal = binary(G, "greater_equal", table["ge"], methods=("ge", "__ge__"))
negative = unary(G, "negative", table["neg"], promotes=False, methods=("neg", "negative", "__neg__"))
exp = unary(G, "exp", table["exp"])
log = unary(G, "log", table["log"])
sqrt = unary(G, "sqrt", table["sqrt"])
tanh = unary(G, "tanh", table["tanh"])
sin = unary(G, "sin", table["sin"])
cos = unary(G, "cos", table["cos"])
