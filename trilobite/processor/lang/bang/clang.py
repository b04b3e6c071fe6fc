"""Runs a real clang: the one inside the ziglang wheel, or one of the system.

Enters: a source file or text, options. Leaves: LLVM text, kept under the hash of everything it depends on.
Errors of the source become one `KernelError` with every diagnostic in it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from trilobite.base.errors import KernelError
from trilobite.native.disk import shared

# One 64-bit triple whose small structs travel in words and whose others travel as pointers to a copy.
TRIPLE = "x86_64-unknown-linux-musl"
_MINIMUM = 17
_MUSL = ("x86_64-linux-musl", "generic-musl", "x86-linux-any", "any-linux-any")
_DIAGNOSTIC = re.compile(r"^(.+?):(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)
_REQUESTED = re.compile(r"^(.+?):(\d+):(\d+): note: .*requested here$", re.MULTILINE)
_COMMON = (
    f"-x c++ -target {TRIPLE} -std=c++17 -w -fno-caret-diagnostics -fno-color-diagnostics -ferror-limit=0 "
    "-ftemplate-backtrace-limit=0 "
    "-fno-exceptions -fno-rtti"
).split()
_GENERATE = (
    "-ffp-contract=off -fcx-limited-range -fno-math-errno -fno-vectorize -fno-slp-vectorize "
    "-fno-unroll-loops "
    "-Xclang -ffloat16-excess-precision=none -fno-discard-value-names -fno-threadsafe-statics "
    "-fno-pic -fno-stack-protector -fno-use-cxa-atexit -fno-jump-tables -fno-builtin-memset "
    "-mllvm -replexitval=never -mllvm -disable-loop-idiom-all "
    # every call is inlined in the end; early, what a lambda captures stays in registers
    "-mllvm -inline-threshold=10000"
).split()
_HOST = (
    "-O1 -fPIC -fno-use-cxa-atexit -fno-threadsafe-statics -ffp-contract=off -fexceptions -fcxx-exceptions "
    "-Xclang -fignore-exceptions -c"
).split()
LIBCPP = (
    "_LIBCPP_ABI_VERSION=1 _LIBCPP_ABI_NAMESPACE=__1 _LIBCPP_HAS_THREADS=1 _LIBCPP_HAS_MONOTONIC_CLOCK=1 "
    "_LIBCPP_HAS_TERMINAL=1 _LIBCPP_HAS_MUSL_LIBC=1 _LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS "
    "_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS _LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0 "
    "_LIBCPP_HAS_FILESYSTEM=1 _LIBCPP_HAS_RANDOM_DEVICE=1 _LIBCPP_HAS_LOCALIZATION=1 _LIBCPP_HAS_UNICODE=1 "
    "_LIBCPP_HAS_WIDE_CHARACTERS=1 "
    "_LIBCPP_HAS_NO_STD_MODULES _LIBCPP_HAS_TIME_ZONE_DATABASE=1 _LIBCPP_PSTL_BACKEND_SERIAL "
    "_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE "
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE"
).split()


@dataclass(frozen=True)
class Clang:
    """A compiler: the words that call it, and those that tell it where its own headers are."""

    command: tuple[str, ...]
    headers: tuple[str, ...]
    version: str
    extremes: tuple[str, ...] = ("algorithm",)  # where std::min and std::max are; libc++ has them apart
    algorithms: frozenset[str] = frozenset()  # those that libc++ keeps in headers of their own
    folders: tuple[Path, ...] = ()  # where its own headers lie

    def has_header(self, name: str) -> bool:
        """Whether a header is the compiler's own: <cmath>, and "float.h" in quotes as well."""
        return any((folder / name).is_file() for folder in self.folders)


@dataclass(frozen=True)
class Diagnostic:
    file: str
    line: int
    column: int
    message: str
    asked: str = ""  # the file of the line that asked for the template's instance it lies in

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


@lru_cache(maxsize=1)
def find_clang() -> Clang | None:
    """The wheel's clang, else a system's; None if there is neither."""
    return _wheel() or _system()


def require_clang() -> Clang:
    found = find_clang()
    if found is None:
        raise KernelError(
            "BANG C needs a clang and there is none",
            expected=f"the ziglang wheel, or clang++ {_MINIMUM} or newer on the PATH",
            remedy="pip install 'trilobite[bang]'",
        )
    return found


def _wheel() -> Clang | None:
    from importlib.util import find_spec

    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    zig = root / "zig"
    if not zig.exists():
        return None
    lib = root / "lib"
    folders = ["libcxx/include", "libcxxabi/include", "include"]
    folders += [f"libc/include/{name}" for name in _MUSL]
    headers = ["-nostdinc", "-nostdinc++", *(f"-D{name}" for name in LIBCPP)]
    for folder in folders:
        headers += ["-isystem", str(lib / folder)]
    version = _version((str(zig), "clang"))
    apart = ("__algorithm/min.h", "__algorithm/max.h", "__utility/swap.h")
    algorithms = frozenset(path.stem for path in (lib / "libcxx/include/__algorithm").glob("*.h"))
    if not version:
        return None
    places = tuple(lib / folder for folder in folders)
    return Clang((str(zig), "clang"), tuple(headers), version, apart, algorithms, places)


def _system() -> Clang | None:
    path = shutil.which("clang++")
    if path is None:
        return None
    version = _version((path,))
    found = re.search(r"version (\d+)", version)
    if found is None or int(found[1]) < _MINIMUM:
        return None
    return Clang((path,), (), version, folders=_searched(path))


def _searched(path: str) -> tuple[Path, ...]:
    """The folders that a system's clang searches for `<...>`, as it lists them itself."""
    words = [path, "-x", "c++", "-E", "-v", "-target", TRIPLE, os.devnull]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stderr
    listed = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", said, re.DOTALL)
    return tuple(Path(line.strip()) for line in listed[1].splitlines()) if listed else ()


def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return ""
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else ""


def _run(words: Sequence[str], text: str | None = None) -> tuple[str, str, bool]:
    clang = require_clang()
    done = subprocess.run(
        [*clang.command, *_COMMON, *clang.headers, *words],
        input=text,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=300,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode == 0


def preprocess(path: Path, words: Sequence[str]) -> tuple[str, list[Diagnostic]]:
    """The source with its includes and macros resolved; the line markers stay."""
    out, errors, fine = _run(["-E", *words, str(path)])
    return out, [] if fine else diagnostics(errors)


def _flags(level: int) -> list[str]:
    """Files keep the names they are given: clang cuts off what they share with the folder it runs in."""
    level_word = "-O0" if level == 0 else "-O2"
    return [*_GENERATE, level_word, "-g", "-fdebug-compilation-dir=/", "-S", "-emit-llvm"]


@lru_cache(maxsize=1)
def _rules() -> str:
    """A digest of the rules by which host code is left out: what is kept depends on them too."""
    files = [Path(__file__).with_name(name) for name in ("host.py", "host_items.py", "launches.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _key(text: str, level: int) -> str:
    words = [require_clang().version, _rules(), *_flags(level), text]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def to_llvm(text: str, level: int) -> tuple[str, list[Diagnostic]]:
    """LLVM text of preprocessed C++, from the cache if it was compiled before."""
    key = _key(text, level)
    if (kept := shared("bang").get(key)) is not None:
        return kept.decode(), []
    out, errors, fine = _run(["-x", "c++", *_flags(level), "-o", "-", "-"], text)
    if not fine:
        return "", diagnostics(errors)
    _keep(key, out.encode())
    return out, []


def to_host(text: str) -> tuple[bytes | None, list[Diagnostic]]:
    """A shared library of C++ for this computer, from the cache if it was made before."""
    from tempfile import TemporaryDirectory

    clang = require_clang()
    key = hashlib.sha256("\0".join([clang.version, *_HOST, text]).encode()).hexdigest()
    if (kept := shared("bang").get(key)) is not None:
        return kept, []
    with TemporaryDirectory() as folder:
        made, library = Path(folder) / "host.o", Path(folder) / "host.so"
        _, errors, fine = _run(["-x", "c++", *_HOST, "-o", str(made), "-"], text)
        if not fine:
            return None, diagnostics(errors)
        linker = ("ld.lld",) if len(clang.command) > 1 else ("-nostdlib",)
        words = [clang.command[0], *linker, "-shared", "-o", str(library), str(made)]
        linked = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if linked.returncode:
            return None, diagnostics(linked.stderr)
        linked_library = library.read_bytes()
    _keep(key, linked_library)
    return linked_library, []


def remember(text: str, level: int, llvm: str) -> None:
    """Keeps what became of a text that clang took only after parts of it were left out."""
    _keep(_key(text, level), llvm.encode())


def _keep(key: str, content: bytes) -> None:
    shared("bang").put(key, content)
    shared("bang").trim()


def diagnostics(errors: str) -> list[Diagnostic]:
    """What clang calls an error; one inside a header of its own, at the user's line that led there."""
    found: list[Diagnostic] = []
    for said in _DIAGNOSTIC.finditer(errors):
        found.append(_led_here(said, errors, found[-1] if found else None))
    if not found and errors.strip():
        found = [Diagnostic("clang", 0, 0, errors.strip().splitlines()[0])]
    return found


def _led_here(found: re.Match[str], errors: str, before: Diagnostic | None) -> Diagnostic:
    following = _DIAGNOSTIC.search(errors, found.end())
    notes = list(_REQUESTED.finditer(errors, found.end(), following.start() if following else len(errors)))
    said = Diagnostic(found[1], int(found[2]), int(found[3]), found[4], notes[-1][1] if notes else "")
    own = tuple(str(folder) for folder in require_clang().folders)
    if not own or not said.file.startswith(own):
        return said
    place = next((note for note in notes if not note[1].startswith(own)), None)
    if place is not None:
        return replace(said, file=place[1], line=int(place[2]), column=int(place[3]))
    if before is not None and not before.file.startswith(own):  # a consequence of the error before it
        return replace(said, file=before.file, line=before.line, column=before.column)
    return said
