"""What the machine can do: the facts that kernels, code generation and cache keys are decided by.

Enters: nothing (LLVM's view of this CPU, sysfs, the process's affinity). Leaves: a `Host`. `features()` is
this machine; `SSE2` and `AARCH64` are plain machines of their kind, for checking that text compiles for them.
It does not measure speed. LLVM always gets the features one by one: a CPU's name alone implies features that
a virtual machine may mask.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from pathlib import Path

from trilobite.base.errors import ArgumentError
from trilobite.base.records import dataclass
from trilobite.native.disk import shared

_CPUINFO = Path("/proc/cpuinfo")
_WIDE = frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq"})
_FLEETING = ("cpu mhz", "bogomips")  # lines that differ from one look to the next
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
# What is assumed where sysfs is silent: sizes that no 64-bit CPU of the last ten years is below.
_L1, _L2, _L3 = 32 << 10, 256 << 10, 2 << 20


@dataclass(frozen=True)
class Host:
    """One kind of machine."""

    triple: str
    cpu: str  # LLVM's name: chooses latencies, never features
    features: str  # LLVM's list, every feature with its sign
    vector_bytes: int  # of one register that both floats and integers fit in
    registers: int  # vector registers
    fma: bool
    f16c: bool  # half <-> float is an instruction, not a library call
    l1: int = _L1  # bytes of one core's data cache
    l2: int = _L2
    l3: int = _L3  # as this process sees it, shared by all cores
    cores: int = 1  # that this process may use at the same time
    tile_bytes: int = 0  # of one register in tiles of float sums, where those are wider than vector_bytes

    @cached_property
    def name(self) -> str:
        """For keys of object code and tuning: equal names run the same code. Cores and caches are no part."""
        facts = f"{self.triple}\n{self.cpu}\n{self.features}" + f"\n{self.tile_bytes}" * (self.tile_bytes > 0)
        return f"{self.triple.split('-')[0]}-{self.cpu}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"

    def lanes(self, itemsize: int) -> int:
        """How many elements of this size one register holds."""
        return self.vector_bytes // itemsize

    def tile_lanes(self, itemsize: int) -> int:
        """How many float sums of this size one register of a tile holds."""
        return max(self.vector_bytes, self.tile_bytes) // itemsize


SSE2 = Host("x86_64-unknown-linux-gnu", "x86-64", "+sse,+sse2,-sse3,-avx", 16, 16, fma=False, f16c=False)
AARCH64 = Host("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8", 16, 32, fma=True, f16c=True)


@lru_cache(maxsize=1)
def features() -> Host:
    """This machine, looked at once."""
    triple, cpu, flags, _ = _facts()
    facts = (triple, cpu, flags)
    l1, l2, l3 = (_cache_bytes(level, fallback) for level, fallback in ((1, _L1), (2, _L2), (3, _L3)))
    if triple.startswith(("aarch64", "arm64")):
        return Host(*facts, 16, 32, True, True, l1, l2, l3, usable_cores())
    present = {flag[1:] for flag in flags.split(",") if flag.startswith("+")}
    vector_bytes = 32 if "avx2" in present else 16  # what is wider holds sums of tiles alone: decision 0026
    fma, f16c = "fma" in present, "f16c" in present
    return Host(*facts, vector_bytes, 16, fma, f16c, l1, l2, l3, usable_cores(), _tile_bytes(present))


def _tile_bytes(present: AbstractSet[str]) -> int:
    """64 where there is AVX-512 and the environment does not ask for less; 0: tiles are as all vectors."""
    wide, text = present >= _WIDE, os.environ.get("TRILOBITE_TILE_BYTES", "")
    if text not in ("", "32", "64") or (text == "64" and not wide):
        raise ArgumentError(
            f"TRILOBITE_TILE_BYTES is {text!r}",
            where="the environment",
            expected="32, or 64 on a machine with AVX-512",
            remedy="unset it: tiles then have the width that this machine has",
        )
    return 64 if wide and text != "32" else 0


def llvm_version() -> str:
    """Of LLVM and of the package that it comes in."""
    return _facts()[3]


@lru_cache(maxsize=1)
def _facts() -> tuple[str, str, str, str]:
    """What LLVM says: triple, CPU, features, and its version. To load it takes longer than to start a small
    program from the cache, so what it said is kept, for as long as machine and library are the same.
    """
    key = _identity()
    kept = None if key is None else shared("machines").get(key)
    if kept is not None:
        triple, cpu, flags, version = kept.decode().split("\n")
        return triple, cpu, flags, version
    import llvmlite
    import llvmlite.binding as llvm

    version = f"{'.'.join(map(str, llvm.llvm_version_info))} {llvmlite.__version__}"
    facts = (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        version,
    )
    if key is not None:
        shared("machines").put(key, "\n".join(facts).encode())
    return facts


def _identity() -> str | None:
    """A key of all that LLVM's answers depend on: the first core as the system describes it, and the file of
    the library. None where either is not to be found.
    """
    core = _first_core()
    package = importlib.util.find_spec("llvmlite")
    if not core or package is None or package.origin is None:
        return None
    lasting = [line for line in core.splitlines() if not line.lower().startswith(_FLEETING)]
    folder = os.path.join(os.path.dirname(package.origin), "binding")
    library = sorted(name for name in os.listdir(folder) if "llvmlite" in name)
    if not library:
        return None
    facts = [(path, os.stat(path)) for path in (os.path.join(folder, name) for name in library)]
    files = [f"{path} {found.st_size} {found.st_mtime_ns}" for path, found in facts]
    return hashlib.sha256("\n".join(["machine 1", *lasting, *files]).encode()).hexdigest()


def _first_core() -> str:
    """What the system says of it. It says the same of every core, which takes it long if there are many."""
    try:
        with open(_CPUINFO, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 14).partition("\n\n")[0]
    except OSError:  # not Linux
        return ""


def usable_cores() -> int:
    """Cores that the affinity leaves to this process, and no more than a container's quota pays for."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota = _read(_QUOTA).split()
    if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
        cores = min(cores, -(-int(quota[0]) // int(quota[1])))
    return max(cores, 1)


def _cache_bytes(level: int, fallback: int) -> int:
    """The size of the data or unified cache of one level, from sysfs: `32K`, `1M`."""
    for index in _caches():
        if _read(index / "level") == str(level) and _read(index / "type") in ("Data", "Unified"):
            size = _read(index / "size")
            unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 0)
            if unit and size[:-1].isdigit():
                return int(size[:-1]) * unit
    return fallback


def _caches() -> list[Path]:
    """Where sysfs describes each cache of the first core."""
    try:
        return sorted(_SYSFS / name for name in os.listdir(_SYSFS) if name.startswith("index"))
    except OSError:  # not Linux, or a container that hides it
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:  # not Linux, or a container that hides it: the callers state what they assume then
        return ""
