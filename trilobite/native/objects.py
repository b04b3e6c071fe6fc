"""LLVM text to object code, and object code into this process.

Enters: the text of an LLVM module, how much the middle end has to do (`level`), for which `Host`. Leaves:
object code as bytes, assembly as text, or a `Library`: addresses of functions in this process, which live as
long as it. It keeps nothing on disk and starts no process (`cache` does).

Levels: 0 none, for text with explicit vectors and loops; 1 a light clean-up; 2 LLVM's -O2 without its
vectorisers and unrolling; 3 with them. The code generator always works at full strength.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

from trilobite.base.errors import IRError
from trilobite.native.elf import undefined
from trilobite.native.generator import generate
from trilobite.native.host import Host, features
from trilobite.native.images import MAGIC, Image, Memory, can_link, link

ENTRY = "entry"  # what a kernel's text calls its function
_LEVELS = (0, 1, 2, 3)


@lru_cache(maxsize=64)  # a kernel that many steps have is asked for again and again
def symbol(text: str, level: int) -> str:
    """The name that `entry` has in the object: equal kernels have equal names, others never collide."""
    return "k" + hashlib.sha256(f"{level}\n{text}".encode()).hexdigest()[:32]


def compile_object(text: str, level: int, host: Host, name: str = "", called: Collection[str] = ()) -> bytes:
    """Object code of a kernel, whose `entry` is called `symbol(text, level)` there, or as is said; it may
    call functions of other objects.
    """
    name = name or symbol(text, level)
    with _compiler(host) as machine:
        if level == 0:
            code = _generated(text, name, host, machine)
        else:
            module = _lowered(text, level, host, machine)
            module.get_function(ENTRY).name = name
            code = machine.emit_object(module)
    _check_names(code, host, called)
    return code


def _generated(text: str, name: str, host: Host, machine: Any) -> bytes:
    """Without the middle end: all in two calls, in which other threads run."""
    try:
        return generate(text, (ENTRY, name), host.triple, str(machine.target_data), machine)
    except NameError:
        raise _no_entry(text) from None
    except RuntimeError as error:
        raise _refused(text, error) from error


def assembly(text: str, level: int, host: Host) -> str:
    """The same code for reading."""
    with _compiler(host) as machine:
        return str(machine.emit_assembly(_lowered(text, level, host, machine)))


def _lowered(text: str, level: int, host: Host, machine: Any) -> Any:
    if level not in _LEVELS:
        raise IRError(f"there is no level {level}", where="a kernel's text", expected="0, 1, 2 or 3")
    import llvmlite.binding as llvm

    module = parse(text, host, machine, llvm.create_context())
    if all(function.name != ENTRY or function.is_declaration for function in module.functions):
        raise _no_entry(text)
    optimise(module, level, machine)
    return module


def parse(text: str, host: Host, machine: Any, context: Any) -> Any:
    """A verified module. Nothing unwinds through its functions."""
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(text, context=context)
        module.verify()
    except RuntimeError as error:
        raise _refused(text, error) from error
    module.triple = host.triple
    module.data_layout = str(machine.target_data)
    for (
        function
    ) in module.functions:  # tables double the time to load an object, and nothing unwinds through it
        if not function.is_declaration:
            function.add_function_attribute("nounwind")
    return module


def _no_entry(text: str) -> IRError:
    return IRError(
        f"a kernel defines no function `{ENTRY}`",
        where=_excerpt(text),
        expected=f"define void @{ENTRY}(ptr, i64, i64, ptr)",
    )


def _refused(text: str, error: RuntimeError) -> IRError:
    import llvmlite.binding as llvm

    return IRError(
        f"LLVM refuses the text of a kernel: {str(error).strip()}",
        where=_excerpt(text),
        expected=f"text that LLVM {'.'.join(map(str, llvm.llvm_version_info))} reads",
        remedy="this is a fault of the code that wrote the text; report it with the text",
    )


def target_machine(host: Host) -> Any:
    """A new one each time: an engine owns its target machine and frees it."""
    import llvmlite.binding as llvm

    _initialise()
    return llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=3, reloc="pic", codemodel="small", jit=True
    )


_compilers: dict[Host, list[Any]] = {}


@contextmanager
def _compiler(host: Host) -> Iterator[Any]:
    """A target machine for one thread at a time. They stay: reading the features takes longer than compiling
    a small kernel.
    """
    idle = _compilers.setdefault(host, [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = target_machine(host)
    try:
        yield machine
    finally:
        idle.append(machine)


def optimise(module: Any, level: int, machine: Any) -> None:
    """Runs the middle end."""
    import llvmlite.binding as llvm

    if level == 0:
        return
    options = llvm.create_pipeline_tuning_options(speed_level=min(level, 2))
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = level == 3
    builder = llvm.create_pass_builder(machine, options)
    passes = _light_passes() if level == 1 else builder.getModulePassManager()
    passes.run(module, builder)


def _light_passes() -> Any:
    """A fourth of -O1's time; loops stay as they are written."""
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_dead_code_elimination_pass()
    return passes


def emit(module: Any, machine: Any, host: Host) -> bytes:
    """Object code that this process can load."""
    code: bytes = machine.emit_object(module)
    _check_names(code, host)
    return code


def _check_names(code: bytes, host: Host, called: Collection[str] = ()) -> None:
    """LLVM's linker ends the process when a name is missing."""
    if host == features():
        for name in undefined(code):
            if name not in called:
                _resolve(name)


def _resolve(name: str) -> int:
    """The address of a function of this process."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        raise IRError(
            f"a kernel calls what this process does not have: {name}",
            expected="intrinsics that this CPU has, or functions of the C library",
            remedy="write out what the instruction set lacks (half precision without F16C, for example)",
        ) from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Engine:
    """LLVM's engine with one module in it; its machine code lives as long as this object.

    The garbage collector finalises the members of a cycle in any order, and a context that goes before its
    engine takes the engine's module with it: so the context stands outside, until the engine is closed.
    """

    _contexts: ClassVar[dict[int, Any]] = {}

    def __init__(self, text: str = "", level: int = 0) -> None:
        import llvmlite.binding as llvm

        host, machine, context = features(), target_machine(features()), llvm.create_context()
        module = parse(text, host, machine, context)
        optimise(module, level, machine)
        self._contexts[id(self)] = context, module
        # llvmlite's memory manager keeps code and constants within reach of each other
        self._engine = llvm.create_mcjit_compiler(module, machine, use_lmm=True)

    def add(self, code: bytes) -> None:
        import llvmlite.binding as llvm

        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))

    def finalize(self) -> None:
        """Makes what was added executable."""
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins; 0 if there is none of this name."""
        return int(self._engine.get_function_address(name))

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # `sys` may be gone
        if "_engine" in self.__dict__ and not is_finalizing():
            self._engine.close()
        self._contexts.pop(id(self), None)


class Library:
    """Functions in this process by name. The machine code lives as long as this object."""

    def __init__(self, code: object, addresses: dict[str, int]) -> None:
        self._code, self.addresses = code, addresses

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


def prepare(code: bytes, name: str, called: Sequence[bytes] = ()) -> bytes:
    """What is kept on disk and loads quickest: an image where objects are linked here, else the object.
    Objects that it calls are linked with it.
    """
    return link(code, name, called).pack() if can_link(code) else code


def load(objects: Mapping[str, bytes]) -> Library:
    """Puts objects, prepared or not, into one library; each is given with the symbol it defines."""
    ready = {name: code if code.startswith(MAGIC) else prepare(code, name) for name, code in objects.items()}
    if all(code.startswith(MAGIC) for code in ready.values()):
        memory = Memory({name: Image.unpack(code) for name, code in ready.items()}, _resolve)
        return Library(memory, memory.addresses)
    return load_by_engine(ready)


def load_by_engine(objects: Mapping[str, bytes]) -> Library:
    """The same for objects of any format, with LLVM's own linker."""
    engine = Engine()
    for code in objects.values():
        engine.add(code)
    engine.finalize()
    addresses = {name: engine.address(name) for name in objects}
    absent = [name for name, address in addresses.items() if address == 0]
    if absent:
        raise IRError(f"an object does not define what it is said to: {', '.join(absent)}")
    return Library(engine, addresses)


def _excerpt(text: str, lines: int = 12) -> str:
    kept = text.strip().splitlines()
    more = [f"... {len(kept) - lines} more lines"] if len(kept) > lines else []
    return "\n".join([*kept[:lines], *more])


@lru_cache(maxsize=1)
def _initialise() -> None:
    """All targets, not the host's alone: text is checked for others too. Takes a few milliseconds."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
