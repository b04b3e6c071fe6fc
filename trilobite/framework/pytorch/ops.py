"""`tb.ops`: operations that `tb.library` registered, by family and name; `aten` has those of the package.

Native libraries of PyTorch's are refused with an `OSError`, which packages that bring one expect where it
does not fit.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.framework.pytorch.library import CustomOpDef, registered


class Family:
    """The operations of one name space."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = registered.get(f"{self._name}::{name}")
        if found is None and self._name in ("aten", "prims", "prim") and not name.startswith("__"):
            found = _of_package(name)
        if found is None:
            raise AttributeError(
                f"there is no operation {self._name}::{name}; tb.library.custom_op registers one, and native "
                "libraries of PyTorch's cannot be loaded"
            )
        return found


def _of_package(name: str) -> Any:
    import importlib

    tb: Any = importlib.import_module(__name__.partition(".")[0])
    fn = getattr(tb, name, None) or getattr(tb.nn.functional, name, None)
    if fn is not None:
        return CustomOpDef(f"aten::{name}", fn)
    named = name.startswith("_") or name.endswith("_backward") or name in _OF_ITS_TRACERS
    return _Absent(f"aten::{name}") if named else None


_OF_ITS_TRACERS = frozenset(
    "_to_copy copy_ detach clone alias _unsafe_view _local_scalar_dense lift lift_fresh _pin_memory "
    "is_pinned to slice _reshape_alias index_select cat index add sub mul div scatter_add embedding t "
    "expand".split()
)
"""What packages name in tables for PyTorch's dispatcher, and never call."""


class _Absent(CustomOpDef):
    """An operation of PyTorch's native part that can be named, not called."""

    def __init__(self, name: str) -> None:
        super().__init__(name, self._refuse)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise StateError(
            f"{self._name}, an operation of PyTorch's native part",
            where=user_location(),
            remedy="use the functions of tb",
        )


def load_library(path: str) -> None:
    """Refused: a library for PyTorch's native part has nothing to attach to here."""
    raise OSError(f"{path} holds operations for PyTorch's native part, which is not here")


loaded_libraries: set[str] = set()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    family = globals()[name] = Family(name)
    return family
