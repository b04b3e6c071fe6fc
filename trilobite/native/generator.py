"""LLVM's code generator, in many threads at once.

Enters: LLVM text that no pass has to work on, and a target machine that no other thread uses. Leaves: object
code. llvmlite lets one thread at a time into LLVM, and gives up the interpreter's lock in each of some sixty
calls a kernel: a thread that compiles while another runs Python would wait for it sixty times. Here a module
has a context of its own, shares nothing with others, and the lock is given up twice: for reading the text and
for generating code.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

_ADDRESS, _WORDS = ctypes.c_void_p, ctypes.c_char_p
_SHORT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ContextCreate": (_ADDRESS, ()),
    "ContextDispose": (None, (_ADDRESS,)),
    "DisposeModule": (None, (_ADDRESS,)),
    "VerifyModule": (ctypes.c_bool, (_ADDRESS, _ADDRESS)),
    "SetTarget": (None, (_ADDRESS, _WORDS)),
    "SetDataLayout": (None, (_ADDRESS, _WORDS)),
    "GetNamedFunction": (_ADDRESS, (_ADDRESS, _WORDS)),
    "IsDeclaration": (ctypes.c_int, (_ADDRESS,)),
    "SetValueName": (None, (_ADDRESS, _WORDS)),
    "ModuleFunctionsIter": (_ADDRESS, (_ADDRESS,)),
    "FunctionsIterNext": (_ADDRESS, (_ADDRESS,)),
    "DisposeFunctionsIter": (None, (_ADDRESS,)),
    "GetEnumAttributeKindForName": (ctypes.c_uint, (_WORDS, ctypes.c_size_t)),
    "AddFunctionAttr": (None, (_ADDRESS, ctypes.c_uint)),
    "GetBufferStart": (_ADDRESS, (_ADDRESS,)),
    "GetBufferSize": (ctypes.c_size_t, (_ADDRESS,)),
    "DisposeMemoryBuffer": (None, (_ADDRESS,)),
    "DisposeString": (None, (_ADDRESS,)),
}
_LONG: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ParseAssembly": (_ADDRESS, (_ADDRESS, _WORDS, _ADDRESS)),
    "TargetMachineEmitToMemory": (_ADDRESS, (_ADDRESS, _ADDRESS, ctypes.c_int, _ADDRESS)),
}


class _Functions(NamedTuple):
    short: Any  # keep the interpreter's lock
    long: Any  # give it up


@lru_cache(maxsize=1)
def _functions() -> _Functions:
    """llvmlite's own library: the system opens it once."""
    from llvmlite.binding import ffi

    path: str = ffi.lib._name
    found = _Functions(ctypes.PyDLL(path), ctypes.CDLL(path))
    for library, table in zip(found, (_SHORT, _LONG), strict=True):
        for name, (result, arguments) in table.items():
            function = getattr(library, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, arguments
    return found


def generate(text: str, names: tuple[str, str], triple: str, layout: str, machine: Any) -> bytes:
    """Object code of a text whose function `names[0]` is called `names[1]` there. Text that LLVM refuses is a
    RuntimeError, one without that function a NameError.
    """
    short, long = _functions()
    context = short.LLVMPY_ContextCreate()
    try:
        with _Said() as said:
            module = long.LLVMPY_ParseAssembly(context, text.encode(), said.place)
            if not module or said.words():
                raise RuntimeError(f"LLVM IR parsing error\n{said.words()}")
        try:
            _prepare(module, names, triple, layout)
            return _emitted(machine, module)
        finally:
            short.LLVMPY_DisposeModule(module)
    finally:
        short.LLVMPY_ContextDispose(context)


def _prepare(module: int, names: tuple[str, str], triple: str, layout: str) -> None:
    """Verified, for this machine, and nothing unwinds through its functions."""
    short, _ = _functions()
    with _Said() as said:
        if short.LLVMPY_VerifyModule(module, said.place):
            raise RuntimeError(said.words())
    short.LLVMPY_SetTarget(module, triple.encode())
    short.LLVMPY_SetDataLayout(module, layout.encode())
    unwinds = short.LLVMPY_GetEnumAttributeKindForName(b"nounwind", 8)
    functions = short.LLVMPY_ModuleFunctionsIter(module)
    while function := short.LLVMPY_FunctionsIterNext(functions):
        if not short.LLVMPY_IsDeclaration(function):
            short.LLVMPY_AddFunctionAttr(function, unwinds)
    short.LLVMPY_DisposeFunctionsIter(functions)
    entry = short.LLVMPY_GetNamedFunction(module, names[0].encode())
    if not entry or short.LLVMPY_IsDeclaration(entry):
        raise NameError(names[0])
    short.LLVMPY_SetValueName(entry, names[1].encode())


def _emitted(machine: Any, module: int) -> bytes:
    short, long = _functions()
    with _Said() as said:
        buffer = long.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, said.place)
        if not buffer:
            raise RuntimeError(said.words())
    try:
        return ctypes.string_at(short.LLVMPY_GetBufferStart(buffer), short.LLVMPY_GetBufferSize(buffer))
    finally:
        short.LLVMPY_DisposeMemoryBuffer(buffer)


class _Said:
    """Where LLVM writes what it has to say."""

    def __init__(self) -> None:
        self._pointer = ctypes.c_void_p()
        self.place = ctypes.byref(self._pointer)

    def __enter__(self) -> _Said:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pointer.value:
            _functions().short.LLVMPY_DisposeString(self._pointer)

    def words(self) -> str:
        return ctypes.string_at(self._pointer.value).decode(errors="replace") if self._pointer.value else ""
