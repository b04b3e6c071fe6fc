"""From a model file to a bundle: the network, its weights, and code compiled for this CPU.

Enters: a model, and inputs of the sizes to compile for. Leaves: a `.tbm` file. Code is made as loading the
bundle would make it: a process of its own opens a bundle without code, runs it with an empty cache, and what
the cache then holds goes into the file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.checkpoint.arrays import NAMES
from trilobite.inference.bundle.container import write
from trilobite.inference.formats import NETWORKS, to_onnx
from trilobite.inference.model import Model, Named
from trilobite.inference.reader import onnx_module, read
from trilobite.native.disk import FORMAT
from trilobite.native.host import features, llvm_version

Array = np.ndarray[Any, Any]
_LARGE = 256  # bytes from which on a weight stands in a section of its own
_CODE = ("objects", "programs")


def build(
    source: Any,
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    sizes: Mapping[str, int] | None = None,
    target: str = "cpu",
) -> None:
    """A bundle of a model (a path of any format that `load` reads, or a ModelProto) for this CPU.

    Code is compiled for the sizes of `inputs`, one set of arrays or several; without them for the sizes that
    the model states, open ones as `sizes` says.
    """
    proto, model = _both(source)
    feeds = _feeds(model, inputs, sizes or {})
    weights = _taken_out(proto, model)
    facts: dict[str, Any] = {
        "target": target,
        "cpu": features().name,
        "llvm": llvm_version(),
        "cache": FORMAT.decode(),
        "weights": {n: [NAMES[a.dtype], list(a.shape)] for n, a in weights.items()},
    }
    sections: dict[str, Any] = {"model": proto.SerializeToString(deterministic=True)}
    sections.update({f"weight/{n}": a for n, a in weights.items()})
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "draft.tbm")
        write(draft, facts, sections)
        _compile(draft, feeds, Path(folder))
        sections.update(_code(Path(folder, "cache")))
        write(path, facts, sections)


def _both(source: Any) -> tuple[Any, Model]:
    """The model as a ModelProto of our own, and as it is read."""
    onnx = onnx_module()
    if isinstance(source, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        return proto, read(source)
    if Path(source).suffix.lower() in NETWORKS:
        proto = to_onnx(source)
        return proto, read(proto)
    model = read(source)
    return onnx.load(os.fspath(source), load_external_data=False), model


def _taken_out(proto: Any, model: Model) -> dict[str, Array]:
    """Large weights leave the network; an empty tensor keeps each one's place."""
    found: dict[str, Array] = {}
    for t in proto.graph.initializer:
        array = model.graph.constants.get(t.name)
        if array is None or array.nbytes < _LARGE or array.dtype not in NAMES:
            continue
        found[t.name] = array
        name, kind = t.name, t.data_type
        t.Clear()
        t.name, t.data_type = name, kind
        t.dims.append(0)
    return found


def _feeds(model: Model, inputs: Any, sizes: Mapping[str, int]) -> list[dict[str, Array]]:
    if inputs is not None:
        rows = [inputs] if isinstance(inputs, Mapping) else list(inputs)
        return [{n: np.asarray(v) for n, v in row.items()} for row in rows]
    return [{i.name: _example(i, sizes) for i in model.graph.inputs}]


def _example(i: Named, sizes: Mapping[str, int]) -> Array:
    t = i.type
    shape = [sizes.get(d, 0) if isinstance(d, str) else d or 0 for d in t.shape or ()]
    if t.kind != "tensor" or t.dtype is None or t.shape is None or any(d <= 0 for d in shape):
        raise ArgumentError(
            f"the input {i.name!r} is {t}, whose sizes a run decides",
            where=user_location(),
            expected="sizes to compile for",
            remedy="pass inputs={name: array}, or sizes={name of the size: number}",
        )
    return np.zeros(shape, t.dtype)


def _compile(draft: Path, feeds: Sequence[Mapping[str, Array]], folder: Path) -> None:
    """In a process of its own, whose cache is empty."""
    names = []
    for k, row in enumerate(feeds):
        names.append(str(folder / f"feeds{k}.npz"))
        np.savez(names[-1], **{f"{n}": a for n, a in row.items()})  # type: ignore[arg-type, unused-ignore]
    environment = {**os.environ, "TRILOBITE_CACHE": str(folder / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-m", "trilobite.inference.bundle.rehearsal", str(draft), *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise StateError(
            "the model cannot be run with the inputs that it is to be compiled for",
            where="\n".join(done.stderr.strip().splitlines()[-6:]),
            remedy="load and run the model file itself first",
        )


def _code(cache: Path) -> dict[str, bytes]:
    """What the process kept: `code/KIND/KEY`."""
    found: dict[str, bytes] = {}
    start = len(FORMAT) + 32  # a magic line and a digest stand before each entry
    for kind in _CODE:
        for file in sorted((cache / kind).glob("*/*")):
            if not file.name.startswith("."):
                found[f"code/{kind}/{file.parent.name}{file.name}"] = file.read_bytes()[start:]
    return found
