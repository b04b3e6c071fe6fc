"""`trilobite info`: what a bug report should contain. Reads, writes nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from trilobite.native.disk import directory

PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "safetensors", "onnx", "ziglang")
# The extensions that decide which kernels can be generated.
VECTOR_FEATURES = frozenset("avx fma f16c avx2 avx512f avx512_bf16 avx512_vnni amx_tile asimd sve".split())


def info() -> None:
    """Prints one line a fact."""
    for name, value in facts():
        print(f"{name:<12}{value}")


def facts() -> Iterator[tuple[str, str]]:
    """Names and values, in the order in which they are read."""
    yield "trilobite", _version("trilobite")
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", platform.platform()
    for package in PACKAGES:
        yield package, _version(package)
    processor = _processor()
    yield "cpu", processor.get("model name") or platform.machine()
    yield "vectors", " ".join(_vector_features(processor)) or "unknown"
    yield "cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}"
    yield "memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    yield "cache", _cache()


def _cache() -> str:
    place = directory()
    if place is None:
        return "none, for this user has no home"
    return f"{place} ({'exists' if place.is_dir() else 'not there yet'})"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> dict[str, str]:
    """What the system says of its first core; empty where there is no /proc."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _vector_features(processor: dict[str, str]) -> list[str]:
    features = (processor.get("flags") or processor.get("Features") or "").split()
    return [feature for feature in features if feature in VECTOR_FEATURES]
