"""Classes that code written for PyTorch asks about (`isinstance(n, SymInt)`), and nothing here is of."""

from __future__ import annotations


class SymInt:
    """An integer that only a run of PyTorch's knows: nothing here is one."""


class SymFloat:
    """A float that only a run of PyTorch's knows: nothing here is one."""


class SymBool:
    """A truth value that only a run of PyTorch's knows: nothing here is one."""


class Stream:
    """A queue of a GPU's work: nothing here is one."""


class Event:
    """A mark in a queue of a GPU's work: nothing here is one."""


class UntypedStorage:
    """Memory as bytes: see `Tensor.untyped_storage`."""


class ScriptFunction:
    """A function of PyTorch's own language: nothing here is one."""
