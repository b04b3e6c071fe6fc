"""A BANG C source: from its file to programs.

Enters: a `.mlu` file, a machine, options. Leaves: the `KernelProgram` that `Device.load` takes. Missing
headers of host libraries and host functions that need them are left out; everything else that clang or the
lowering refuses is one `KernelError` with every place in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang import clang
from trilobite.processor.lang.bang.columns import in_columns_of, placed
from trilobite.processor.lang.bang.headers import INCLUDE
from trilobite.processor.lang.bang.host import (
    instantiated,
    kernel_templates,
    with_absent_names,
    without_host_items,
)
from trilobite.processor.lang.bang.llvm.module import Module
from trilobite.processor.lang.bang.lower.module import ModuleLowering
from trilobite.processor.lang.bang.rewrite import MARKER, chunks, enumerators, rewrite
from trilobite.processor.lang.bang.surroundings import named_algorithms, read, taken_for_granted
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.machine import Machine

_MISSING = re.compile(r"'([^']+)' file not found")
_ARCHITECTURES = {
    "mlu270": 270, "mlu290": 290, "mlu220": 220, "mlu370-x4": 372, "mlu370-x8": 372, "mlu590": 592,
}  # fmt: skip
DEFAULT_ARCHITECTURE = 372
LIBRARY = "/libcxx/include/"  # in the line markers of a text that has headers of libc++
HEADERS = 60  # how often a header is supplied before the preprocessor's word is final
DEPTH = 12  # how many folders up an absent header may be named
ROUNDS = 8  # how often headers or host functions are left out before clang's word is final


@dataclass(frozen=True)
class Options:
    """What a command line would say: -I, -D, -O; the one entry that is wanted, if not all are; whether a
    kernel stops where an operand breaks the table's word."""

    includes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    level: int = 2
    entry: str = ""
    contracts: bool = False


def architecture(machine: Machine) -> int:
    """The number that sources ask for in __BANG_ARCH__."""
    return _ARCHITECTURES.get(machine.name, DEFAULT_ARCHITECTURE)


def compile_file(path: str | Path, machine: Machine, options: Options | None = None) -> KernelProgram:
    """Every entry of a source, for a machine."""
    chosen = options or Options()
    return compile_module(kernel_module(path, machine, chosen), machine, chosen.level)


def kernel_module(path: str | Path, machine: Machine, options: Options) -> KernelModule:
    """The kernel IR of a source."""
    file = Path(path)
    if not file.is_file():
        raise KernelError(f"there is no file {file}", expected="a BANG C source", remedy="check the path")
    plain, llvm = _translated(file, machine, options)
    names = enumerators(plain)
    try:
        lowered = _lowered(file, llvm, machine, options, names)
    except KernelError as fault:
        raise in_columns_of(rewrite(plain), file, fault) from None
    if not lowered.entries:
        _, llvm = _translated(file, machine, options, with_instances=True)
        lowered = _lowered(file, llvm, machine, options, names)
    if not lowered.entries:
        raise KernelError(
            "the source has no kernel", where=file.name,
            expected="a function marked __mlu_global__ or __mlu_entry__; a template instantiated or launched",
            remedy="mark one",
        )  # fmt: skip
    return lowered


def _translated(
    file: Path, machine: Machine, options: Options, with_instances: bool = False
) -> tuple[str, str]:
    """The preprocessed text of a source and what clang makes of it.

    Of the library's headers it gets only what they promise, and what it names; a source that lives on more
    than that is read again with all that they happen to include.
    """
    plain, missing = _preprocessed(file, machine, options, is_lean=True)
    text = _to_compile(plain, options, with_instances)
    try:
        return plain, _compiled(file, text, missing, options)
    except KernelError:
        if LIBRARY not in plain:
            raise
    plain, missing = _preprocessed(file, machine, options, is_lean=False)
    llvm = _compiled(file, _to_compile(plain, options, with_instances), missing, options)
    clang.remember(text, options.level, llvm)
    return plain, llvm


def _to_compile(plain: str, options: Options, with_instances: bool) -> str:
    """C++ for clang; with the wanted instance of a template, or one of every kernel template."""
    text = rewrite(plain)
    if "<" in options.entry:
        text = instantiated(text, options.entry)
    for name, count in kernel_templates(text) if with_instances else ():
        text = instantiated(text, f"{name}<{', '.join(['float'] * count)}>")
    return text


def _lowered(
    file: Path, llvm: str, machine: Machine, options: Options, names: Mapping[tuple[str, int], str]
) -> KernelModule:
    made = ModuleLowering(
        Module(llvm), machine, options.level, file.name, str(file), names, options.contracts, options.entry
    )
    return made.run()


def _compiled(file: Path, text: str, missing: list[str], options: Options) -> str:
    """What clang makes of a source, without the host functions that it cannot make anything of."""
    first: list[clang.Diagnostic] = []
    whole = text
    for _ in range(ROUNDS):
        llvm, faults = clang.to_llvm(text, options.level)
        if not faults:
            if first:
                clang.remember(whole, options.level, llvm)
            return llvm
        first = first or faults
        places = [(d.file, d.line, d.message) for d in faults]
        shorter = without_host_items(with_absent_names(text, places) if missing else text, places)
        if shorter == text:
            break
        text = shorter
    remained = [fault for fault in first if fault in faults]  # without the host's, which do not matter
    raise _refused(file, placed(whole, remained or first), missing)


def _words(text: str, machine: Machine, options: Options, is_lean: bool) -> list[str]:
    sram = machine.sram.kib
    values = {
        "__BANG__": 300, "__BANG_ARCH__": architecture(machine), "__MLU_NRAM_SIZE__": machine.core.nram.kib,
        "__MLU_WRAM_SIZE__": machine.core.wram.kib, "__MLU_SRAM_SIZE__": sram, "__BANG_DEVICE__": 1,
    }  # fmt: skip
    words = [f"-D{name}={value}" for name, value in values.items()]
    words += [f"-D{text}" for text in options.defines]
    for folder in (*options.includes, str(INCLUDE)):
        words += ["-I", folder]
    compiler = clang.require_clang()
    for header in taken_for_granted(text, compiler.extremes):
        words += ["-include", header]
    if is_lean and compiler.algorithms:
        words += ["-D_LIBCPP_REMOVE_TRANSITIVE_INCLUDES", "-I", str(INCLUDE / "lean")]
        for name in named_algorithms(text, compiler.algorithms):
            words += ["-include", f"__algorithm/{name}.h"]
    return [*words, "-include", "bang.h"]  # as the vendor's driver does: sources may name nothing


def _preprocessed(file: Path, machine: Machine, options: Options, is_lean: bool) -> tuple[str, list[str]]:
    """The preprocessed text, and the headers that were not found and stand empty."""
    from tempfile import TemporaryDirectory

    around = read(file, options.includes)
    words = _words(around.text, machine, options, is_lean)
    for part in around.parts:
        words += ["-include", str(part)]
    missing: list[str] = []
    with TemporaryDirectory() as folder:
        empty = Path(folder).resolve().joinpath(*["below"] * DEPTH)
        empty.mkdir(parents=True)
        words += ["-I", str(empty)]
        for name in around.absent:
            words += _supplied(file, name, empty, missing)
        for _ in range(HEADERS):
            text, faults = clang.preprocess(file, words)
            found = [m[1] for d in faults if (m := _MISSING.search(d.message)) and m[1] not in missing]
            early = [name for name in _disturbed(text) if name not in words] if not faults else []
            if not faults and not early:
                return text.replace(str(empty), "absent"), missing  # or no two runs would be alike
            for name in early:
                words[:0] = ["-include", name]
            if faults and not found:
                break
            for name in found:
                words += _supplied(file, name, empty, missing)
        raise _refused(file, faults, missing)


def _disturbed(text: str) -> Iterator[str]:
    """Library headers behind a macro `sizeof`: they do not survive it and must come before the source."""
    for chunk, is_user in chunks(text):
        if not is_user and "(uint32_t(sizeof(" in chunk:
            marker = MARKER.match(chunk)
            if marker:
                yield marker[2].rpartition("/include/")[2]


def _supplied(file: Path, name: str, folder: Path, missing: list[str]) -> list[str]:
    """A missing header: from a folder above the source if it is there, else an empty one."""
    for above in file.resolve().parents:
        if (above / name).is_file():
            return ["-I", str(above)]
    target = (folder / name.lstrip("/")).resolve()
    if not target.is_relative_to(folder.parents[DEPTH - 1]) or name in missing:
        return []
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("", encoding="utf-8")
    missing.append(name)
    return []


def _refused(file: Path, faults: Sequence[clang.Diagnostic], missing: Sequence[str]) -> KernelError:
    shown = [str(d).replace(str(file), file.name) for d in faults]
    lines = list(dict.fromkeys(shown))
    absent = f"; these headers were not found: {', '.join(missing)}" if missing else ""
    return KernelError(
        "the source does not compile:\n  " + "\n  ".join(lines[:30]),
        where=file.name,
        expected="BANG C as docs/bang.md describes it" + absent,
        remedy="correct these places" + (", or add the folders of the headers with -I" if missing else ""),
    )
