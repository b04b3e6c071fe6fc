"""LLVM text to callable machine code, in this process.

Enters: the text of an LLVM module and the signatures of its functions. Leaves: a `NativeModule` whose
functions are called like Python functions. The host's CPU features are passed, never its name alone,
because a name implies features that a virtual machine may mask. Each module is parsed in a context of its
own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

POINTER, INT64 = ctypes.c_void_p, ctypes.c_int64


class NativeModule:
    """Compiled functions; the machine code lives as long as this object."""

    def __init__(
        self, text: str, signatures: Mapping[str, tuple[Any, Sequence[Any]]], optimise: bool = True
    ) -> None:
        import llvmlite.binding as llvm

        machine = _target_machine()
        module = llvm.parse_assembly(text, context=llvm.create_context())
        module.verify()
        if optimise:
            options = llvm.create_pipeline_tuning_options(speed_level=2)
            options.loop_vectorization = options.slp_vectorization = True
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self._functions = {name: self._bind(name, *signature) for name, signature in signatures.items()}

    def _bind(self, name: str, result: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *arguments)(self._engine.get_function_address(name))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]


def _target_machine() -> Any:
    """A new one for every engine, because an engine owns its target machine and frees it."""
    import llvmlite.binding as llvm

    _initialise()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


@lru_cache(maxsize=1)
def _initialise() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
