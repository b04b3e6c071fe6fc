"""A BANG C source: from its file to programs.

Enters: a `.mlu` file, a machine, options. Leaves: the `KernelProgram` that `Device.load` takes. Missing
headers of host libraries and host functions that need them are left out; everything else that clang or the
lowering refuses is one `KernelError` with every place in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang import clang, device_library
from trilobite.processor.lang.bang.columns import in_columns_of, placed
from trilobite.processor.lang.bang.folding import folded, unfolded
from trilobite.processor.lang.bang.host import with_absent_names, without_host_items
from trilobite.processor.lang.bang.launches import GUESS, instantiated, with_guessed_instances
from trilobite.processor.lang.bang.llvm.module import Module
from trilobite.processor.lang.bang.lower.module import ModuleLowering
from trilobite.processor.lang.bang.older import with_elements
from trilobite.processor.lang.bang.preprocess import Options, architecture, preprocessed, refused
from trilobite.processor.lang.bang.rewrite import enumerators, rewrite
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.machine import Machine

__all__ = ["Options", "architecture", "compile_file", "kernel_module"]

LIBRARY = "/libcxx/include/"  # in the line markers of a text that has headers of libc++
ROUNDS = 8  # how often host functions are left out before clang's word is final
# What clang says where a header did not bring what it happens to include elsewhere.
_LIVES_ON = re.compile(
    r"'std|std::|undeclared identifier|unknown type|no template named|undefined template|incomplete"
)


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
    """The user's lines of the preprocessed source and what clang makes of it.

    Of the library's headers it gets only what they promise, and what it names; a source that lives on more
    than that is read again with all that they happen to include.
    """
    lean = _Text.of(file, machine, options, with_instances, is_lean=True)
    llvm, faults = lean.compiled(options.level)
    if not faults:
        return lean.plain, llvm
    if lean.has_library and any(_LIVES_ON.search(fault.message) for fault in faults):
        whole = _Text.of(file, machine, options, with_instances, is_lean=False)
        llvm, still = whole.compiled(options.level)
        if not still:
            clang.remember(lean.whole, options.level, llvm)
            return whole.plain, llvm
    raise refused(file, placed(lean.text, faults), lean.missing)


@dataclass(frozen=True)
class _Text:
    """A source on its way to clang: the user's lines as they were written, the same as C++, and the runs of
    library headers between them."""

    plain: str
    text: str
    runs: list[str]
    missing: list[str]

    @staticmethod
    def of(file: Path, machine: Machine, options: Options, with_instances: bool, is_lean: bool) -> _Text:
        preprocessed_text, missing = preprocessed(file, machine, options, is_lean)
        plain, runs = folded(preprocessed_text)
        return _Text(plain, _to_compile(plain, options, with_instances), runs, missing)

    @property
    def has_library(self) -> bool:
        return any(LIBRARY in run for run in self.runs)

    @property
    def whole(self) -> str:
        return unfolded(self.text, self.runs)

    def compiled(self, level: int) -> tuple[str, list[clang.Diagnostic]]:
        """What clang makes of it without the host functions that it cannot make anything of, or the faults
        that stay."""
        first: list[clang.Diagnostic] = []
        text = self.text
        for _ in range(ROUNDS):
            llvm, faults = clang.to_llvm(unfolded(text, self.runs), level)
            if not faults:
                more = device_library.bodies(llvm)
                if more:
                    text += more
                    continue
                if "bang.entry" not in llvm and any(d.asked.startswith(GUESS) for d in first):
                    return "", first  # no guess at a template's types was right
                if first:
                    clang.remember(self.whole, level, llvm)
                return llvm, []
            first = first or faults
            guessed = {d.asked for d in faults if d.asked.startswith(GUESS)}
            places = [(d.file, d.line, d.column, d.message) for d in faults if d.asked not in guessed]
            places += [(file, 1, 1, "") for file in guessed]
            known = with_elements(text, places)
            shorter = without_host_items(with_absent_names(known, places) if self.missing else known, places)
            if shorter == text:
                break
            text = shorter
        return "", [fault for fault in first if fault in faults] or first  # without the host's


def _to_compile(plain: str, options: Options, with_instances: bool) -> str:
    """C++ for clang; with the wanted instance of a template, or one of every kernel template."""
    text = rewrite(plain)
    if "<" in options.entry:
        text = instantiated(text, options.entry)
    return with_guessed_instances(text) if with_instances else text


def _lowered(
    file: Path, llvm: str, machine: Machine, options: Options, names: Mapping[tuple[str, int], str]
) -> KernelModule:
    made = ModuleLowering(
        Module(llvm), machine, options.level, file.name, str(file), names, options.contracts, options.entry
    )
    return made.run()
