"""Trilobite: a whole AI computing system in one package. `import trilobite as tb`.

tb.tensor, tb.zeros, tb.arange, ...     tensors, as the Python array API standard has them    (framework/ops)
tb.float32, tb.bfloat16, tb.int4, ...   dtypes: equal to NumPy's and those of ml_dtypes       (base/dtypes)
tb.grad, tb.vmap, tb.jvp, tb.jit, ...   transforms of functions                               (framework)
tb.cond, tb.scan, tb.while_loop, ...    control flow that transforms see                      (framework)
tb.linalg, tb.fft, tb.random            further functions of tensors
tb.nn, tb.optim, tb.data, tb.metrics    what a training is made of
tb.fit, tb.save, tb.load, ...           a plain training loop; files
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

_OFFERED_DUNDERS = frozenset({"__array_namespace_info__", "__all__", "__config__"})


def __getattr__(name: str) -> Any:
    """The framework comes in with the first name that is asked for: `trilobite.processor` does without it."""
    if name.startswith("__") and name not in _OFFERED_DUNDERS:
        raise AttributeError(f"trilobite has no {name!r}")
    if name in ("dlp", "processor"):  # rooms that do without the framework
        return importlib.import_module(f"{__name__}.{name}")
    namespace, found = _namespace(), globals()
    if "tensor" not in found:
        found.update(namespace.names())
        found["__all__"] = sorted(
            n for n in (*namespace.names(), *namespace.ROOMS, *namespace.LATER) if not n.startswith("_")
        )
    if name not in found:
        found[name] = namespace.later(name)
    return found[name]


def _namespace() -> Any:
    """The framework. All that its import makes is kept, so nobody looks for garbage meanwhile."""
    from trilobite.base.collection import uncollected

    with uncollected():
        from trilobite.framework import namespace
    return namespace


def __dir__() -> list[str]:
    namespace = _namespace()
    return sorted({*globals(), *namespace.names(), *namespace.ROOMS, *namespace.LATER})


class _Doors:
    """`import trilobite.nn.functional as F`: rooms of the framework under the names that `tb.` gives them."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package != __name__ or not rest or rest.partition(".")[0] == "framework":
            return None  # the framework's own rooms have no other name; where it is missing they end here
        from trilobite.framework.namespace import INNER_ROOMS, OBJECTS, ROOMS

        if rest in OBJECTS:
            return ModuleSpec(name, _Door(rest))
        first, _, inside = rest.partition(".")
        if first in OBJECTS and first != "jit":  # a room without a file: `trilobite.onnx.symbolic_helper`
            found: Any = __getattr__(first)
            for part in inside.split("."):
                found = getattr(found, part, None)
            return None if found is None else ModuleSpec(name, _Door(rest, found))
        rooms, door, inner = {**ROOMS, **INNER_ROOMS}, rest, ""
        while door not in rooms and "." in door:  # the longest name that is a room
            door, _, last = door.rpartition(".")
            inner = f"{last}.{inner}" if inner else last
        if door not in rooms:
            return None
        real = f"{rooms[door]}.{inner}" if inner else rooms[door]
        if real == name:
            return None  # a room that goes by its own name: what is not in it is nowhere
        return None if importlib.util.find_spec(real) is None else ModuleSpec(name, _Door(real))


class _Door:
    """Gives the room itself, not a copy, and leaves it as it was."""

    def __init__(self, real: str, found: Any = None) -> None:
        self.real, self.found = real, found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if self.found is not None:
            module: Any = self.found
        elif "." not in self.real:  # an object of `tb` that PyTorch has as a module: `tb.jit`
            module = __getattr__(self.real)
        else:
            module = importlib.import_module(self.real)
        self.spec = getattr(module, "__spec__", None)
        return module  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        if self.spec is not None:
            module.__spec__ = self.spec


class _InnerDoors:
    """What lies inside a room that goes by another name: its file would be found under that name as well, and
    loaded a second time, with classes and state of its own.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("trilobite."):
            return None
        parent = name.rpartition(".")[0]
        room = sys.modules.get(parent)
        is_renamed = isinstance(room, ModuleType) and room.__name__ != parent
        return _Doors.find_spec(name, path, target) if is_renamed else None


if not any(finder is _Doors for finder in sys.meta_path):
    sys.meta_path.insert(0, _InnerDoors)
    sys.meta_path.append(_Doors)  # behind all others: it is asked only for what is no file
