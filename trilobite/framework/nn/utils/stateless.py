"""`tb.nn.utils.stateless`: a module with other weights for one call."""

from trilobite.framework.nn.skeleton import functional_call

__all__ = ["functional_call"]
