"""The preprocessed text of a source: macros, our headers, the library's, and stand-ins for what is not there.

Enters: a `.mlu` file, a machine, options. Leaves: text with line markers, and the names of headers that were
not found and stand empty. Refuses, with everything that clang said, what cannot be preprocessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang import clang
from trilobite.processor.lang.bang.headers import INCLUDE, known_names
from trilobite.processor.lang.bang.surroundings import (
    folders_above,
    named_algorithms,
    read,
    taken_for_granted,
)
from trilobite.processor.machine import Machine

_INTRINSIC = re.compile(r"undeclared identifier '(__(?:bang|trc|grid|memcpy|vv|sync)_\w+)'")
_WITHOUT_MEANING = re.compile(
    r"__(?:trc|grid)_\w+|__memcpy_\w+_to_remote\w*|__bang_(?:tiling_[23]d|discrete_atomic_\w+|conv_sparse|ssparse_\w+"
    r"|active_f(?:16|32)|b(?:reduce|expand)|fcmpfilter|integral|remote_\w+|qpreset|\w+_sr)"
)
_MISSING = re.compile(r"'([^']+)' file not found")
_ARCHITECTURES = {
    "mlu270": 270, "mlu290": 290, "mlu220": 220, "mlu370-x4": 372, "mlu370-x8": 372, "mlu590": 592,
}  # fmt: skip
DEFAULT_ARCHITECTURE = 372
HEADERS = 60  # how often a header is supplied before the preprocessor's word is final
DEPTH = 12  # how many folders up an absent header may be named
SHOWN = 30  # faults that a message lists


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


def preprocessed(
    file: Path, machine: Machine, options: Options, is_lean: bool, first: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """The preprocessed text, and the headers that were not found and stand empty."""
    from tempfile import TemporaryDirectory

    around = read(file, options.includes, clang.require_clang())
    words = [*first, *(word for name in around.early for word in ("-include", name))]
    words += _words(around.text, machine, options, is_lean)
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
            if not faults:
                return text.replace(str(empty), "absent"), missing  # or no two runs would be alike
            found = [m[1] for d in faults if (m := _MISSING.search(d.message)) and m[1] not in missing]
            for name in found:
                words += _supplied(file, name, empty, missing)
            if not found:
                break
        raise refused(file, faults, missing)


def _supplied(file: Path, name: str, folder: Path, missing: list[str]) -> list[str]:
    """A missing header: from a folder above the source if it is there, else an empty one."""
    for above in folders_above(file):
        if (above / name).is_file():
            return ["-I", str(above)]
    target = (folder / name.lstrip("/")).resolve()
    if not target.is_relative_to(folder.parents[DEPTH - 1]) or name in missing:
        return []
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("", encoding="utf-8")
    missing.append(name)
    return []


def _with_intrinsics(message: str) -> str:
    """Of an intrinsic that nobody declares: whether its name is known at all, and what is near."""
    found = _INTRINSIC.search(message)
    if found is None:
        return message
    name = found[1]
    near = get_close_matches(name, known_names(), 3, 0.8)
    said = (
        "no public text says what it means"
        if _WITHOUT_MEANING.fullmatch(name)
        else "no such intrinsic is known"
    )
    return f"{message}: {said}" + (f"; near it: {', '.join(near)}" if near else "")


def refused(file: Path, faults: Sequence[clang.Diagnostic], missing: Sequence[str]) -> KernelError:
    """What clang said; names that nobody declares are most likely those of headers that are not there."""
    shown = [_with_intrinsics(str(d).replace(str(file), file.name)) for d in faults]
    lines = list(dict.fromkeys(shown))
    if len(lines) > SHOWN:
        lines = [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]
    if not missing:
        return KernelError(
            "the source does not compile:\n  " + "\n  ".join(lines),
            where=file.name,
            expected="BANG C as docs/bang.md describes it",
            remedy="correct these places",
        )
    headers = "a header that it includes was" if len(missing) == 1 else "headers that it includes were"
    said = f"the source does not compile, and {headers} not found: {', '.join(missing)}"
    return KernelError(
        said + "\n  " + "\n  ".join(lines),
        where=file.name,
        expected="every header whose names device code uses",
        remedy="add the folders of the headers with -I, or correct these places",
    )
