"""`tb.utils.hooks`: what takes a hook away again."""

from trilobite.framework.nn.hooks import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
