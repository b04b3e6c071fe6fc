"""Modules that PyTorch's tracer made: nothing here is one."""

from trilobite.framework.nn.module import Module


class GraphModule(Module):
    """PyTorch's class of traced modules."""


_CodeOnlyModule = GraphModule
