"""Style transfer with pretrained networks.

The same ONNX files for every system: the network of 26 styles at 256×256 and 1024×1024, and of the 8-bit pair
for any style the network that paints, at 384×384. A step of Gatys's method stands among the training steps.
Pictures of the 8-bit network may differ where a sum lies between two of its steps.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from benchmarks.row import Job, Row, both_thread_counts

SIDES = (256, 1024)


def feeds_of(asset: str, side: int) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    if asset == "multistyle26":
        shares = np.zeros(26, np.float32)
        shares[7] = 1
        return {"image": rng.random((1, 3, side, side), np.float32), "style_weights": shares}
    content = rng.random((1, side, side, 3), np.float32)
    return {"content_image": content, "mobilenet_conv/Conv/BiasAdd": rng.random((1, 1, 1, 100), np.float32)}


def path_of(asset: str) -> str:
    from trilobite.apps import assets

    return str(assets.fetch(asset))


def on_trilobite(asset: str, side: int) -> Job:
    import trilobite as tb

    package: Any = tb
    session, feeds = package.inference.load(path_of(asset)), feeds_of(asset, side)
    return Job(lambda: session.run(feeds), lambda: list(session.run(feeds).values()))


def on_onnxruntime(asset: str, side: int) -> Job:
    from pathlib import Path

    from benchmarks.peers.on_onnxruntime import session

    running, feeds = session(Path(path_of(asset)).read_bytes()), feeds_of(asset, side)
    return Job(lambda: running.run(None, feeds), lambda: running.run(None, feeds))


def on_openvino(asset: str, side: int) -> Job:
    import openvino

    core = openvino.Core()
    model, feeds = core.read_model(path_of(asset)), feeds_of(asset, side)
    model.reshape({name: list(value.shape) for name, value in feeds.items()})
    threads = str(len(os.sched_getaffinity(0)))
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16, where the processor has it
        "INFERENCE_NUM_THREADS": threads,
    }
    request = core.compile_model(model, "CPU", options).create_infer_request()
    return Job(lambda: request.infer(feeds), lambda: [request.infer(feeds)[0]])


def row(name: str, asset: str, side: int) -> Row:
    systems = {
        "trilobite": partial(on_trilobite, asset, side),
        "onnxruntime": partial(on_onnxruntime, asset, side),
        "openvino": partial(on_openvino, asset, side),
    }
    return Row(name, systems, unit="ms", aim_ratio=1.0)


ROWS = both_thread_counts(
    [
        *(row(f"26 styles, {side}×{side}", "multistyle26", side) for side in SIDES),
        row("any style, 8 bits, 384×384", "arbitrary_transform", 384),
    ]
)
