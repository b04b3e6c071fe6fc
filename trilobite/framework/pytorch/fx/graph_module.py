"""Modules that PyTorch's tracer made: nothing here is one."""

from trilobite.framework.nn.module import Module


class GraphModule(Module):
    """PyTorch's class of traced modules."""


_CodeOnlyModule = GraphModule
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """What a module holds under a dotted name, put into another one under the same name."""
    *path, last = target.split(".")
    source, destination = from_module, to_module
    for name in path:
        source = getattr(source, name)
        if getattr(destination, name, None) is None:
            setattr(destination, name, Module())
        destination = getattr(destination, name)
    setattr(destination, last, getattr(source, last))
