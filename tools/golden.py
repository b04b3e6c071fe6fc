"""Golden texts: what the CPU target makes of the zoo on one described machine, so that a move is proven to
be none but a move.

Enters: names of networks. Leaves: `tests/golden/zoo.json`, a digest of every stage's text and the name of
every kernel's code (a digest of its LLVM text), forward and training; and whole texts of a few small ones,
LLVM's compressed. The machine is described here, not looked at, and weights are zeros, so every host gives
the same. Lines of the user's source are left out: they move with every edit. Nothing is run and no machine
code is made.

    python -m tools.golden --check [NAME ...]     lists what differs from the kept, and fails if anything does
    python -m tools.golden [NAME ...]             lists the same, and keeps the new
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "tests" / "golden"
TABLE = PLACE / "zoo.json"
BLOCK = "residual_block"  # not in the zoo: one block of ResNet-18
WHOLE = ("mlp", "lenet", BLOCK)  # small enough to be read: their texts are kept
_LINE = re.compile(r" +# [^\s:]+:\d+$", re.MULTILINE)
_PLACE = re.compile(r" \([^()\s]*:\d+ in [^()]*\)")
_SHOWN = 40  # lines of a text's differences
_LARGE = frozenset({"gpt2", "bert_base", "vgg19"})  # whose batches are small

Found = dict[str, dict[str, Any]]


def subjects() -> tuple[str, ...]:
    from trilobite.cli.networks import EXAMPLES

    return (*EXAMPLES, BLOCK)


# -- one network, in a process of its own --------------------------------------------------------------------


def texts_of(name: str) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Each use of a network, with its stages' texts and its kernels."""
    import trilobite as tb
    from trilobite.compiler.graph.pipeline import Options
    from trilobite.compiler.targets.cpu.report import Stages, kernels_of
    from trilobite.compiler.targets.cpu.target import compile_graph

    batch = 2 if name in _LARGE else 16
    graphs = []
    for use, size, training in (
        ("forward 1", 1, False),
        (f"forward {batch}", batch, False),
        ("training", batch, True),
    ):
        with tb.nn.init.skipped():
            graphs.append((use, *_recorded(name, size, training)))
    _describe_machine()
    for use, graph, usage in graphs:
        options = Options.of(dict(usage.options), usage.stable, usage.donated, usage.replaced)
        executable = compile_graph(graph, options)
        stages = Stages(executable)
        texts = {stage: _plain(stages[stage]) for stage in stages if stage != "asm"}
        yield use, texts, [f"{k.name} {k.code}" for k in kernels_of(executable.parts)]


def _recorded(name: str, batch: int, training: bool) -> tuple[Any, Any]:
    from trilobite.cli.networks import network, subject

    if name != BLOCK:
        return network(name, batch, training).lowered()
    import numpy as np

    from trilobite import nn
    from trilobite.zoo.resnet import BasicBlock

    model = nn.Sequential(BasicBlock(16, 16, 1, None), nn.Flatten(), nn.Linear(16 * 8 * 8, 10))
    return subject(model, name, np.zeros((batch, 16, 8, 8), np.float32), training).lowered()


def _describe_machine() -> None:
    """From here on the machine is this one, whatever it is: AVX2, caches of a usual server, four cores."""
    from trilobite.native import host

    flags = ",".join(
        f"+{f}" for f in "sse sse2 sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma f16c bmi bmi2".split()
    )
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 32 << 20}
    facts = ("x86_64-unknown-linux-gnu", "x86-64-v3", flags, "described")
    host._facts = lambda: facts  # type: ignore[assignment]
    host._cache_bytes = lambda level, _: sizes[level]  # type: ignore[assignment]
    host.usable_cores = lambda: 4
    host.features.cache_clear()


def _plain(text: str) -> str:
    return _PLACE.sub("", _LINE.sub("", text))


def _digests(texts: dict[str, str]) -> dict[str, str]:
    return {stage: hashlib.sha256(text.encode()).hexdigest()[:16] for stage, text in texts.items()}


def _page(texts: dict[str, str]) -> str:
    """All stages in one file; one that changed nothing says so."""
    lines, before = [], ""
    for stage, text in texts.items():
        lines += [f"==== {stage}", "as before" if text == before else text, ""]
        before = text
    return "\n".join(lines)


def _child(name: str, folder: Path) -> None:
    """Writes what was found into a folder: a table, and whole texts."""
    found: Found = {}
    for use, texts, kernels in texts_of(name):
        found[f"{name} {use}"] = {"stages": _digests(texts), "kernels": kernels}
        if name in WHOLE:
            stem = f"{name}_{use.replace(' ', '_')}"
            (folder / f"{stem}.llvm.xz").write_bytes(lzma.compress(texts.pop("llvm").encode(), preset=9))
            (folder / f"{stem}.txt").write_text(_page(texts), encoding="utf-8")
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


# -- all of them ---------------------------------------------------------------------------------------------


def make(name: str, folder: Path) -> Found:
    """What the compiler makes of a network now, by a process that knows no earlier one's programs."""
    words = [sys.executable, "-m", "tools.golden", "--into", str(folder), name]
    environment = {
        **os.environ,
        "TRILOBITE_CACHE": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
    }
    subprocess.run(words, cwd=ROOT, env=environment, check=True)
    found: Found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return found


def differences(old: Found, new: Found) -> list[str]:
    """One line for each stage or set of kernels that is another."""
    lines = []
    for use in sorted(new):
        if use not in old:
            lines.append(f"{use}: new")
            continue
        was, now = old[use], new[use]
        stages = dict.fromkeys((*was["stages"], *now["stages"]))
        others = (s for s in stages if was["stages"].get(s) != now["stages"].get(s))
        lines += [f"{use}: stage {s}" for s in others]
        gone, come = (set(a["kernels"]) - set(b["kernels"]) for a, b in ((was, now), (now, was)))
        lines += [f"{use}: without the kernel {k}" for k in sorted(gone)]
        lines += [f"{use}: with the kernel {k}" for k in sorted(come)]
    return lines


def compare(name: str, folder: Path) -> tuple[Found, list[str]]:
    """A network as it is made now, and how that differs from what is kept; whole texts line by line."""
    old: Found = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    found = make(name, folder)
    lines = differences(old, found)
    for path in _texts(folder):
        was, now = _read(PLACE / path.name), _read(path)
        if was != now:
            shown = difflib.unified_diff(
                was.splitlines(), now.splitlines(), f"kept {path.name}", "now", "", "", 1
            )
            lines += list(shown)[:_SHOWN]
    return found, lines


def _texts(folder: Path) -> list[Path]:
    return sorted((*folder.glob("*.txt"), *folder.glob("*.xz")))


def _read(path: Path) -> str:
    if not path.exists():
        return ""
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()


def _keep(found: Found, folder: Path) -> None:
    old: Found = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    whole = {**old, **found}
    PLACE.mkdir(exist_ok=True)
    TABLE.write_text(json.dumps(dict(sorted(whole.items())), indent=1) + "\n", encoding="utf-8")
    for path in _texts(folder):
        (PLACE / path.name).write_bytes(path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description="what the CPU target makes of the zoo, beside what is kept")
    parser.add_argument("names", nargs="*", help="networks; all if none is named")
    parser.add_argument("--check", action="store_true", help="keep nothing; fail if anything differs")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.into:
        _child(args.names[0], Path(args.into))
        return 0
    differs = False
    for name in args.names or subjects():
        with tempfile.TemporaryDirectory() as place:
            found, lines = compare(name, Path(place))
            print("\n".join(lines) if lines else f"{name}: the same", flush=True)
            differs = differs or bool(lines)
            if not args.check:
                _keep(found, Path(place))
    return int(differs and args.check)


if __name__ == "__main__":
    sys.exit(main())
