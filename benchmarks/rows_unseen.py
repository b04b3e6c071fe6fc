"""Networks that nobody had tuned for.

Written once with PyTorch's names (`unseen.py` and `unseen_more.py` in `benchmarks/peers`), batch 1, 224×224.
ONNX Runtime and OpenVINO get PyTorch's export in inference mode, with batch normalisation folded where that
is possible; OpenVINO runs with the hint LATENCY in float32. Ours and PyTorch's are the modules as they are
written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import ours
from benchmarks.peers import unseen, unseen_more, weights
from benchmarks.row import Job, Row, both_thread_counts

NETWORKS = {**unseen.NETWORKS, **unseen_more.NETWORKS}


def image() -> Any:
    return weights.images(1, 3, 224, 224)


def built(name: str, package: Any) -> Any:
    """The network in a package, with the weights that all systems get."""
    model = NETWORKS[name](package)
    state = model.state_dict()
    for key, value in unseen.drawn({key: tuple(v.shape) for key, v in state.items()}).items():
        state[key].copy_(package.from_numpy(value))
    return model.eval()


def on_trilobite(name: str) -> Job:
    import trilobite as tb

    return ours.job(built(name, tb), image())


def on_torch(name: str, last: bool) -> Job:
    import torch

    from benchmarks.peers import on_torch as peer

    model, x = built(name, torch), torch.from_numpy(image())
    if last:
        model, x = model.to(memory_format=torch.channels_last), peer.channels_last(x)
    return peer.job(model, x)


def exported(name: str) -> bytes:
    import io
    import warnings

    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own advice about its successor
        torch.onnx.export(
            built(name, torch), (torch.from_numpy(image()),), file, input_names=["x"], dynamo=False
        )
    return file.getvalue()


def on_onnxruntime(name: str) -> Job:
    from benchmarks.peers.on_onnxruntime import session

    running, given = session(exported(name)), {"x": image()}
    return Job(lambda: running.run(None, given), lambda: running.run(None, given))


def on_openvino(name: str) -> Job:
    import openvino

    core = openvino.Core()
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(len(os.sched_getaffinity(0))),
    }
    compiled = core.compile_model(core.read_model(exported(name)), "CPU", options)
    request, x = compiled.create_infer_request(), image()
    return Job(lambda: request.infer({0: x}), lambda: [request.infer({0: x})[0]])


def row(name: str) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(on_trilobite, name),
        "torch": partial(on_torch, name, False),
        "torch channels last": partial(on_torch, name, True),
        "onnxruntime": partial(on_onnxruntime, name),
        "openvino": partial(on_openvino, name),
    }
    return Row(name, systems, unit="ms", aim_ratio=1.0)


ROWS = both_thread_counts([row(name) for name in NETWORKS])
