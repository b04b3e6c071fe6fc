"""Classes that code written for PyTorch asks about (`isinstance(n, SymInt)`), and nothing here is of."""

from __future__ import annotations

__path__: list[str] = []  # `import trilobite._subclasses.fake_tensor` looks for rooms under it


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


class ScriptModule:
    """A module of PyTorch's own language: nothing here is one."""


class DisableTorchFunctionSubclass:
    """Operations on subclasses give plain tensors meanwhile: here they do always."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class AbsentDtype:
    """A dtype of PyTorch's that tensors here cannot have: a name to compare with, or to look up."""

    is_floating_point = is_complex = is_signed = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"trilobite.{self.name}"


complex32 = chalf = AbsentDtype("complex32")
qint8, quint8, qint32 = AbsentDtype("qint8"), AbsentDtype("quint8"), AbsentDtype("qint32")
quint4x2, quint2x4 = AbsentDtype("quint4x2"), AbsentDtype("quint2x4")
DisableTorchFunction = DisableTorchFunctionSubclass


class FakeTensor:
    """A tensor of PyTorch's tracers without values: nothing here is one."""


class FakeTensorMode(DisableTorchFunctionSubclass):
    """Tensors without values for PyTorch's tracers: sizes are found by recording here."""


def is_fake(x: object) -> bool:
    """Has it no values? Every tensor here has some."""
    return False
