"""What PyTorch keeps under `compiler` and `jit`: questions about compilation, and marks for compilers.

A function that `tb.jit` records is plain Python to it: marks change nothing, and nobody is scripting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trilobite.framework.pytorch.symbols import ScriptFunction, ScriptModule
from trilobite.ir.transforms import bind as entry

T = TypeVar("T")


def is_compiling() -> bool:
    """Is a function being recorded?"""
    return entry.threads.context.recorder is not None


is_dynamo_compiling = is_exporting = is_compiling


def marked(fn: Any = None, *args: Any, **settings: Any) -> Any:
    """The function or class itself; also as a decorator with settings."""
    return fn if callable(fn) else lambda f: f


def _never() -> bool:
    return False


def _is_of(value: Any, kind: Any) -> bool:
    return isinstance(value, kind)


class Final(Generic[T]):
    """An attribute that does not change: a mark in annotations."""


disable = allow_in_graph = assume_constant_result = marked


def annotate(kind: Any, value: Any) -> Any:
    return value


def traced(fn: Callable[..., Any], *examples: Any, **settings: Any) -> Callable[..., Any]:
    """The function itself: `tb.jit` needs no examples."""
    return fn


JIT_NAMES: dict[str, Any] = {
    "is_scripting": _never, "is_tracing": is_compiling, "script": marked, "ignore": marked, "unused": marked,
    "export": marked, "interface": marked, "script_method": marked, "_script_if_tracing": marked,
    "script_if_tracing": marked, "_overload_method": marked, "_overload": marked, "trace": traced,
    "trace_module": traced, "freeze": marked, "optimize_for_inference": marked, "Final": Final,
    "annotate": annotate, "isinstance": _is_of, "ScriptModule": ScriptModule,
    "ScriptFunction": ScriptFunction, "RecursiveScriptModule": ScriptModule, "Attribute": annotate,
}  # fmt: skip
"""What `tb.jit` has as attributes, beside being the compiler: PyTorch's module of that name."""


def _no_mark(*args: Any, **settings: Any) -> None:
    """Taken and without effect."""


COMPILER_NAMES: dict[str, Any] = {
    "is_compiling": is_compiling, "is_dynamo_compiling": is_compiling, "is_exporting": _never,
    "disable": marked, "allow_in_graph": marked, "assume_constant_result": marked,
    "substitute_in_graph": lambda original, **settings: marked, "reset": _no_mark,
    "cudagraph_mark_step_begin": _no_mark, "set_stance": _no_mark, "nested_compile_region": marked,
    "list_backends": lambda: ["inductor"],
}  # fmt: skip
"""What `tb.compiler` has beside being the lobe: PyTorch's questions and marks."""
