"""LLVM text to object code, and object code into this process.

Enters: the text of an LLVM module, how much the middle end has to do (`level`), for which `Host`. Leaves:
object code as bytes, assembly as text, or a `Library`: addresses of functions in this process, which live as
long as it. It keeps nothing on disk and starts no process (`cache` does).

Levels: 0 none, for text with explicit vectors and loops; 1 a light clean-up; 2 LLVM's -O2 without its
vectorisers and unrolling; 3 with them. The code generator always works at full strength.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from trilobite.base.errors import IRError
from trilobite.native.host import Host, features

ENTRY = "entry"  # what a kernel's text calls its function
_LEVELS = (0, 1, 2, 3)


def symbol(text: str, level: int) -> str:
    """The name that `entry` has in the object: equal kernels have equal names, others never collide."""
    return "k" + hashlib.sha256(f"{level}\n{text}".encode()).hexdigest()[:32]


def compile_object(text: str, level: int, host: Host) -> bytes:
    """Object code of a kernel, whose `entry` is called `symbol(text, level)` there."""
    module, machine = _lowered(text, level, host)
    module.get_function(ENTRY).name = symbol(text, level)
    return emit(module, machine, host)


def assembly(text: str, level: int, host: Host) -> str:
    """The same code for reading."""
    module, machine = _lowered(text, level, host)
    return str(machine.emit_assembly(module))


def _lowered(text: str, level: int, host: Host) -> tuple[Any, Any]:
    if level not in _LEVELS:
        raise IRError(f"there is no level {level}", where="a kernel's text", expected="0, 1, 2 or 3")
    import llvmlite.binding as llvm

    machine = target_machine(host)
    module = parse(text, host, machine, llvm.create_context())
    if all(function.name != ENTRY or function.is_declaration for function in module.functions):
        raise IRError(
            f"a kernel defines no function `{ENTRY}`",
            where=_excerpt(text),
            expected=f"define void @{ENTRY}(ptr, i64, i64, ptr)",
        )
    optimise(module, level, machine)
    return module, machine


def parse(text: str, host: Host, machine: Any, context: Any) -> Any:
    """A verified module. Nothing unwinds through its functions."""
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(text, context=context)
        module.verify()
    except RuntimeError as error:
        raise IRError(
            f"LLVM refuses the text of a kernel: {str(error).strip()}",
            where=_excerpt(text),
            expected=f"text that LLVM {'.'.join(map(str, llvm.llvm_version_info))} reads",
            remedy="this is a fault of the code that wrote the text; report it with the text",
        ) from error
    module.triple = host.triple
    module.data_layout = str(machine.target_data)
    for (
        function
    ) in module.functions:  # tables double the time to load an object, and nothing unwinds through it
        if not function.is_declaration:
            function.add_function_attribute("nounwind")
    return module


def target_machine(host: Host) -> Any:
    """A new one each time: an engine owns its target machine and frees it."""
    import llvmlite.binding as llvm

    _initialise()
    return llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=3, reloc="pic", codemodel="small", jit=True
    )


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
    """Object code that this process can load: LLVM's linker ends the process when a name is missing."""
    import llvmlite.binding as llvm

    code: bytes = machine.emit_object(module)
    if host == features():
        missing = [name for name in undefined(code) if llvm.address_of_symbol(name) is None]
        if missing:
            raise IRError(
                f"a kernel calls what this process does not have: {', '.join(missing)}",
                expected="intrinsics that this CPU has, or functions of the C library",
                remedy="write out what the instruction set lacks (half precision without F16C, for example)",
            )
    return code


def undefined(code: bytes) -> list[str]:
    """Names that an ELF object expects from elsewhere, such as `memset`; nothing of other formats."""
    if code[:6] != b"\x7fELF\x02\x01":  # 64 bits, little endian
        return []
    (sections,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    headers = [struct.unpack_from("<IIQQQQI", code, sections + i * size) for i in range(count)]
    names = []
    for kind, offset, length, link in ((h[1], h[4], h[5], h[6]) for h in headers):
        if kind == 2:  # a table of symbols: name, info, other, section, value, size
            strings = headers[link][4]
            for name, _, _, section in struct.iter_unpack("<IBBH16x", code[offset : offset + length]):
                if section == 0 and name:
                    start = strings + name
                    names.append(code[start : code.index(b"\0", start)].decode())
    return names


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
        self._engine = llvm.create_mcjit_compiler(module, machine)

    def add(self, code: bytes) -> None:
        import llvmlite.binding as llvm

        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))

    def finalize(self) -> None:
        """Makes what was added executable."""
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins; 0 if there is none of this name."""
        return int(self._engine.get_function_address(name))

    def __del__(self) -> None:
        if "_engine" in self.__dict__ and not sys.is_finalizing():
            self._engine.close()
        self._contexts.pop(id(self), None)


class Library:
    """Functions in this process by name. The machine code lives as long as this object."""

    def __init__(self, engine: Engine, addresses: dict[str, int]) -> None:
        self._engine, self.addresses = engine, addresses

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


def load(objects: Mapping[str, bytes]) -> Library:
    """Links objects, each given with the symbol it defines, into one library: about 30 µs each."""
    engine = Engine()
    for code in objects.values():
        engine.add(code)
    engine.finalize()
    addresses = {name: engine.address(name) for name in objects}
    absent = [name for name, address in addresses.items() if address == 0]
    if absent:
        raise IRError(f"objects do not define what they are said to: {', '.join(absent)}")
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
