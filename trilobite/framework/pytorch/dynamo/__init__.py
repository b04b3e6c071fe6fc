"""`tb._dynamo`: PyTorch's compiler of Python frames, which is not here; marks for it change nothing."""

from trilobite.framework.pytorch.compiler import disable, marked

allow_in_graph = mark_dynamic = mark_static = marked

__all__ = ["allow_in_graph", "disable", "mark_dynamic", "mark_static"]
