"""ONNX models made smaller: the same network with fewer nodes, as ONNX again.

Enters: a ModelProto. Leaves: another one, and how often each rewrite was made. Operators of any domain may
stand in the model: those that no rewrite knows stay as they are. One rewrite, one module.
"""

from trilobite.inference.optimise.api import Optimised, optimize

__all__ = ["Optimised", "optimize"]
