"""Write what type checkers see: `trilobite/__init__.pyi` and the methods that the operator table gives to
Tensor.

The names of `tb.` and most methods of Tensor derive from tables when the package is imported, where no type
checker
looks. `stubs()` gives the texts of the two stub files; `python -m tools.reference` writes them with the
pages.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HEAD = '"""Generated from the tables by `python -m tools.reference`."""\n'


def typed(fn: Any, bound: bool) -> str:
    """The parameters of a function with Any for every type; without the first if it is a method."""
    parameters = list(inspect.signature(fn).parameters.values())
    if bound:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [
            inspect.Parameter("self", parameters[0].kind if parameters[0].kind in kinds else kinds[0]),
            *parameters[1:],
        ]
    plain = [
        p.replace(
            annotation=inspect.Parameter.empty if p.name == "self" else Any,
            default=p.default if p.default is inspect.Parameter.empty else ...,
        )
        for p in parameters
    ]
    text = str(inspect.Signature(plain)).replace("typing.Any", "Any").replace("Ellipsis", "...")
    return text


def attached() -> str:
    """The methods and properties of Tensor that do not stand in its own module."""
    from trilobite.framework.tensor import Tensor

    importlib.import_module("trilobite.framework.ops")
    lines = [HEAD, "from typing import Any", "", "class Attached:"]
    for name, member in sorted(vars(Tensor).items()):
        if isinstance(member, property):
            if member.fget is not None and member.fget.__module__ != Tensor.__module__:
                lines += ["    @property", f"    def {name}(self) -> Any: ..."]
        elif inspect.isfunction(member) and member.__module__ != Tensor.__module__ and name != "__hash__":
            lines.append(f"    def {name}{typed(member, bound=True)} -> Any: ...")
    return "\n".join(lines) + "\n"


def _importable(name: str, value: Any) -> str | None:
    """The line that imports an object from where it is defined, if it is the one that stands there."""
    module, label = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if inspect.ismodule(value):
        room, _, last = value.__name__.rpartition(".")
        return f"from {room} import {last} as {name}"
    if module is None or label is None or getattr(importlib.import_module(module), label, None) is not value:
        return None
    return f"from {module} import {label} as {name}"


def _declared(name: str, value: Any) -> str:
    from trilobite.base.dtypes import dtype

    if isinstance(value, dtype):
        return f"{name}: dtype"
    if inspect.isfunction(value):
        return f"def {name}{typed(value, bound=False)} -> Any: ..."
    if value is not None and type(value).__module__ != "builtins":
        return f"{name}: Any"
    return f"{name}: {f'builtins.{type(value).__name__}' if value is not None else 'None'}"


def package() -> str:
    """Every name that `tb.` offers."""
    from trilobite.framework import namespace

    imports: list[str] = []
    others: list[str] = []
    for name, value in sorted(namespace.names().items()):
        line = _importable(name, value)
        (others if line is None else imports).append(line or _declared(name, value))
    for name, module in namespace.ROOMS.items():
        room, _, last = module.rpartition(".")
        imports.append(f"from {room} import {last} as {name}")
    for name in namespace.LATER:
        value = namespace.later(name)
        imports.append(_importable(name, value) or f"{name}: Any")
    top = [HEAD, "import builtins", "from typing import Any", ""]
    return (
        "\n".join([*top, *sorted(imports), "", "__version__: str", "__array_api_version__: str", *others])
        + "\n"
    )


def stubs() -> dict[Path, str]:
    """Path and text of every stub."""
    home = ROOT / "trilobite"
    return {home / "__init__.pyi": package(), home / "framework" / "attached.pyi": attached()}
