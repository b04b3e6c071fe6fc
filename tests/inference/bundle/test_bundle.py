"""Bundles: one file, the bits of the model file, nothing compiled when it is opened, other CPUs refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError, FileError, StateError
from trilobite.inference import build, export, load, open_bundle
from trilobite.inference.bundle import container
from trilobite.inference.bundle.container import Container, write

onnx = pytest.importorskip("onnx")
Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small network as a model file and as a bundle."""
    folder = tmp_path_factory.mktemp("bundle")
    model = tb.nn.Sequential(
        tb.nn.Conv2d(3, 8, 3, padding=1), tb.nn.ReLU(), tb.nn.AdaptiveAvgPool2d(1), tb.nn.Flatten(),
        tb.nn.Linear(8, 5),
    ).eval()  # fmt: skip
    export(model, (tb.tensor(normal(2, 3, 8, 8)),), folder / "m.onnx")
    build(folder / "m.onnx", folder / "m.tbm")
    return folder / "m.onnx", folder / "m.tbm"


def test_a_bundle_gives_the_bits_of_the_model_file(built: tuple[Path, Path]) -> None:
    model, bundle = (load(built[0]), open_bundle(built[1], verify=True))
    feeds = {model.inputs[0].name: normal(2, 3, 8, 8)}
    want, got = model.run(feeds), bundle.run(feeds)
    assert list(want) == list(got)
    assert all(np.array_equal(want[n], got[n]) for n in want)


def test_load_opens_a_bundle_too(built: tuple[Path, Path]) -> None:
    assert load(built[1]).inputs == open_bundle(built[1]).inputs


COUNT = """
import sys, numpy as np
from trilobite.native import cache
from trilobite.inference import open_bundle
made = []
before = cache.compile_all
cache.compile_all = lambda texts: (made.extend(texts), before(texts))[1]
session = open_bundle(sys.argv[1])
session.run({session.inputs[0].name: np.ones((2, 3, 8, 8), np.float32)})
print(len(made))
"""


def test_nothing_is_compiled_where_the_cache_is_empty(
    built: tuple[Path, Path], tmp_path: Path, root: Path
) -> None:
    environment = {**os.environ, "TRILOBITE_CACHE": str(tmp_path / "empty"), "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", COUNT, str(built[1])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "0", done.stdout


def test_weights_are_mapped_and_not_read(built: tuple[Path, Path]) -> None:
    opened = Container(built[1])
    name = next(n for n in opened.facts["weights"] if n.endswith("weight"))
    array = opened.array(f"weight/{name}", *opened.facts["weights"][name])
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert not array.flags.writeable and not isinstance(base, np.ndarray)


def for_another(path: Path, to: Path, **facts: Any) -> Path:
    opened = Container(path)
    rest = {k: v for k, v in opened.facts.items() if k != "sections"}
    write(to, {**rest, **facts}, {n: bytes(opened.raw(n)) for n in opened.sections})
    return to


def test_a_bundle_for_another_cpu_is_refused_by_name_or_compiled(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    other = for_another(built[1], tmp_path / "o.tbm", cpu="x86_64 fancy-cpu +avx1024")
    with pytest.raises(DeviceError, match=r"(?s)another CPU: x86_64 fancy-cpu.*on_other_cpu=.compile"):
        open_bundle(other)
    session = open_bundle(other, on_other_cpu="compile")
    feeds = {session.inputs[0].name: normal(2, 3, 8, 8)}
    want = load(built[0]).run(feeds)
    assert all(np.array_equal(want[n], v) for n, v in session.run(feeds).items())
    with pytest.raises(ArgumentError, match="on_other_cpu='never'"):
        open_bundle(other, on_other_cpu="never")


@pytest.mark.long
def test_open_sizes_have_to_be_given(tmp_path: Path) -> None:
    n = tb.dim("n", max=64)
    w = tb.tensor(normal(16, 16))
    made = export(lambda x: (x @ w).tanh(), (tb.ones((2, 16)),), shapes=((n, 16),))
    with pytest.raises(ArgumentError, match=r"'x' is .*whose sizes a run decides"):
        build(made, tmp_path / "m.tbm")
    build(made, tmp_path / "m.tbm", sizes={"n": 3})
    build(made, tmp_path / "m.tbm", inputs=[{"x": normal(3, 16)}, {"x": normal(5, 16)}])
    (y,) = open_bundle(tmp_path / "m.tbm").run({"x": normal(7, 16)}).values()
    np.testing.assert_allclose(y, np.tanh(normal(7, 16) @ np.asarray(w)), rtol=1e-5, atol=1e-5)


def test_inputs_that_do_not_run_are_told(built: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be run with the inputs"):
        build(built[0], tmp_path / "m.tbm", inputs={"nothing": normal(1)})
    assert not (tmp_path / "m.tbm").exists()


@pytest.mark.long
def test_other_formats_become_bundles(tmp_path: Path) -> None:
    files = Path(__file__).parents[1] / "formats" / "files"
    build(files / "cnn_float.tflite", tmp_path / "m.tbm")
    with np.load(files / "cnn_float.npz") as kept:
        session = open_bundle(tmp_path / "m.tbm")
        (found,) = session.run({session.inputs[0].name: kept["in0"]}).values()
        np.testing.assert_allclose(found, kept["out0"], rtol=1e-4, atol=1e-6)


# -- damage --------------------------------------------------------------------------------------------------


def test_each_part_that_is_damaged_is_found(built: tuple[Path, Path], tmp_path: Path) -> None:
    raw = built[1].read_bytes()
    opened = Container(built[1])
    for name in ("model", next(n for n in opened.sections if n.startswith("weight/"))):
        s = opened.sections[name]
        damaged = bytearray(raw)
        damaged[s.offset + s.size // 2] ^= 1
        path = tmp_path / "d.tbm"
        path.write_bytes(damaged)
        with pytest.raises(FileError, match="is damaged"):
            open_bundle(path, verify=True)
    for at in (0, 20, 40, 70, 400):
        damaged = bytearray(raw)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            open_bundle(path)


def test_damaged_code_is_refused_before_it_runs(built: tuple[Path, Path], tmp_path: Path, root: Path) -> None:
    raw, opened = bytearray(built[1].read_bytes()), Container(built[1])
    for name, s in opened.sections.items():
        if name.startswith("code/objects/"):
            raw[s.offset + s.size // 2] ^= 255
    path = tmp_path / "d.tbm"
    path.write_bytes(raw)
    environment = {**os.environ, "TRILOBITE_CACHE": str(tmp_path / "empty"), "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", COUNT, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root)
    assert done.returncode == 1 and "is damaged" in done.stderr, done.stderr[-500:]


FACTS = {
    "sections": [
        {},
        {"a": [0]},
        {"a": ["x", 1, ""]},
        {"a": [-64, 1, ""]},
        {"a": [0, 10**30, ""]},
        [],
        None,
        5,
    ],
    "weights": [[], None, {"x": ["float32", [1]]}, {"x": 5}],
    "cpu": [None, 5],
}


def test_facts_that_say_nonsense_are_refused(built: tuple[Path, Path], tmp_path: Path) -> None:
    """With digests that fit: written by somebody who knows the format."""
    import hashlib

    opened = Container(built[1])
    for key, values in FACTS.items():
        for value in values:
            text = json.dumps({**opened.facts, key: value}).encode()
            head = container.MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text
            path = tmp_path / "n.tbm"
            path.write_bytes(head + bytes(200))
            with pytest.raises((FileError, DeviceError)):
                open_bundle(path)
