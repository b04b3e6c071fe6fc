"""Keras files beside what Keras itself gave, and HDF5 beside what h5py wrote."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, FileError, TrilobiteError
from trilobite.inference import load
from trilobite.inference.formats import to_onnx, weights
from trilobite.inference.formats.hdf5 import open_file
from trilobite.inference.formats.keras import convert
from trilobite.inference.formats.keras.archive import read
from trilobite.inference.formats.keras.layers import RULES

onnx = pytest.importorskip("onnx")
FILES = Path(__file__).parent / "files"
NAMES = sorted(p.name for p in (*FILES.glob("*.keras"), *FILES.glob("*.h5")))


def kept(name: str) -> dict[str, Any]:
    with np.load(FILES / f"{name}_keras.npz") as found:
        return {k: found[k] for k in found.files}


def compare(model: Any, name: str, bound: float = 3e-6) -> None:
    onnx.checker.check_model(model, full_check=True)
    values = kept(name)
    feeds = {i.name: values[f"in{k}"] for k, i in enumerate(model.graph.input)}
    results = load(model, target="reference").run(feeds)
    assert len(results) == sum(k.startswith("out") for k in values)
    for k, got in enumerate(map(np.asarray, results.values())):
        want = values[f"out{k}"]
        assert got.shape == want.shape, k
        assert np.abs(got - want).max() <= bound * max(1.0, float(np.abs(want).max())), k


@pytest.mark.parametrize("name", NAMES)
def test_networks_give_what_keras_gives(name: str) -> None:
    compare(convert(FILES / name), name.partition(".")[0])


def test_a_session_opens_other_formats_by_their_ending() -> None:
    session = load(FILES / "sequential.keras", target="reference")
    values = kept("sequential")
    (found,) = session.run({session.inputs[0].name: values["in0"]}).values()
    assert np.abs(np.asarray(found) - values["out0"]).max() < 1e-5


def test_most_layers_are_tried_here() -> None:
    text = json.dumps([read(FILES / name).config for name in NAMES])
    tried = {kind for kind in RULES if f'"class_name": "{kind}"' in text}
    assert len(RULES) >= 60 and len(tried) >= 42, sorted({*RULES} - tried)


def test_weights_by_name_in_both_generations() -> None:
    old, new = weights(FILES / "sequential.h5"), weights(FILES / "sequential.keras")
    assert len(old) == len(new) == 4 and "layers/dense/vars/0" in new
    a = next(v for k, v in old.items() if k.endswith("dense_3/kernel"))
    assert np.array_equal(a, new["layers/dense/vars/0"])


def test_hdf5_as_h5py_writes_it() -> None:
    """Groups within groups, many members, chunks that are packed and shuffled, texts of any length."""
    root = open_file(FILES / "forms.hdf5")
    arrays = {path: g.array() for path, g in root.walk()}
    rng = np.random.default_rng(0)
    assert np.array_equal(arrays["a/b/c/x"], rng.standard_normal((3, 4)).astype(np.float32))
    assert np.array_equal(arrays["z"], rng.integers(0, 100, (50, 70)))
    assert arrays["a/b/c/s"] == 3.5 and arrays["e"].shape == (0, 3) and arrays["half"].dtype == np.float16
    assert arrays["flag"].tolist() == [1, 0] and arrays["big"].tolist() == [0, 1, 2, 3, 4, 5]
    assert all(arrays[f"many/g{i}/w"].tolist() == [i] * 3 for i in range(40))
    attributes = root.attributes
    assert attributes["config"] == "ü" * 5000 and attributes["names"] == ["one", "three"]
    assert attributes["n"] == 5 and attributes["v"] == ["a", "bb"]
    assert "a/b" in root and "a/q" not in root
    with pytest.raises(ArgumentError, match="there is no 'a/q'"):
        root["a/q"]


def test_weights_alone_are_no_network(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds weights alone"):
        convert(FILES / "forms.hdf5")


def archive(path: Path, members: dict[str, bytes], **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def test_layers_that_are_not_known_are_all_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILES / "sequential.keras") as file:
        members = {n: file.read(n) for n in file.namelist()}
    members["config.json"] = (
        members["config.json"].replace(b'"Flatten"', b'"Magic"').replace(b'"Dense"', b'"Spell"')
    )
    with pytest.raises(FileError, match=r"2 kinds of operations.*Magic.*Spell"):
        convert(archive(tmp_path / "m.keras", members))


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """30 MB of zeros in 30 kB."""
    members = {"config.json": b"{}", "model.weights.h5": bytes(30 << 20)}
    path = archive(tmp_path / "m.keras", members, compression=zipfile.ZIP_DEFLATED, compresslevel=9)
    with pytest.raises(FileError):
        convert(path)
    members = {"config.json": b" " * (80 << 20)}
    with pytest.raises(FileError, match="would unpack to"):
        convert(archive(path, members, compression=zipfile.ZIP_DEFLATED))


def test_an_archive_without_a_network(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"has no config\.json"):
        convert(archive(tmp_path / "m.keras", {"x": b""}))


# -- TensorFlow.js -------------------------------------------------------------------------------------------


def written(folder: Path, quantised: bool, shards: int = 2) -> Path:
    """The network of `sequential.h5` as TensorFlow.js has it."""
    config, arrays = read(FILES / "sequential.h5").config, weights(FILES / "sequential.h5")
    rows, data = [], b""
    for name in arrays:
        a = arrays[name]
        row: dict[str, Any] = {"name": name, "shape": list(a.shape), "dtype": "float32"}
        if quantised:
            low, scale = float(a.min()), float(a.max() - a.min()) / 65535
            row["quantization"] = {"dtype": "uint16", "min": low, "scale": scale}
            a = np.round((a - low) / scale).astype(np.uint16)
        rows.append(row)
        data += a.tobytes()
    names = [f"group1-shard{i}of{shards}.bin" for i in range(shards)]
    cut = [len(data) * i // shards for i in range(shards + 1)]
    for i, name in enumerate(names):
        (folder / name).write_bytes(data[cut[i] : cut[i + 1]])
    topology = {"model_config": config}
    text = {
        "format": "layers-model",
        "modelTopology": topology,
        "weightsManifest": [{"paths": names, "weights": rows}],
    }
    (folder / "model.json").write_text(json.dumps(text))
    return folder / "model.json"


@pytest.mark.parametrize("quantised", [False, True])
def test_layers_models_of_tensorflow_js(quantised: bool, tmp_path: Path) -> None:
    compare(to_onnx(written(tmp_path, quantised)), "sequential", 1e-3 if quantised else 3e-6)


def test_shards_from_elsewhere_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, False)
    text = json.loads(path.read_text())
    for name in ("../x.bin", "/etc/hostname", "..", ""):
        text["weightsManifest"][0]["paths"] = [name]
        path.write_text(json.dumps(text))
        with pytest.raises(FileError, match="a shard is named"):
            dict(weights(path))
    for name, said in (("x" * 300, "name too long"), ("a\0b", "no file can have"), ("\ud800", "no file can")):
        text["weightsManifest"][0]["paths"] = [name]
        path.write_text(json.dumps(text))
        with pytest.raises(TrilobiteError, match=f"(?i){said}"):
            dict(weights(path))
    (tmp_path / "link.bin").symlink_to("/etc/hostname")
    text["weightsManifest"][0]["paths"] = ["link.bin"]
    path.write_text(json.dumps(text))
    with pytest.raises(FileError, match="symbolic link"):
        dict(weights(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100000, "is no JSON"),
        ('[{"paths": ["a"]}]', "malformed"),
        ('[{"paths": ["a"], "weights": [{"name": "w", "shape": [-1], "dtype": "float32"}]}]', "no size"),
        ('[{"paths": ["a"], "weights": [{"name": "w", "shape": [9e9], "dtype": "float32"}]}]', "no size"),
        (
            '[{"paths": ["a"], "weights": [{"name": "w", "shape": [1], "dtype": "string"}]}]',
            "an array of string",
        ),
        ('[{"paths": ["a"], "weights": [{"name": "w", "shape": [1], "dtype": "float32"}]}]', "is missing"),
    ],
)
def test_doubtful_manifests_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        dict(weights(path))


def test_an_ending_that_no_reader_has() -> None:
    with pytest.raises(ArgumentError, match=r"ends in '\.xyz' is no network"):
        to_onnx("model.xyz")


@pytest.mark.parametrize(("at", "value"), [(4, 1), (4, 7), (5, 200)])
def test_a_tree_of_another_kind_or_depth_is_no_tree(tmp_path: Path, at: int, value: int) -> None:
    content = bytearray((FILES / "sequential.h5").read_bytes())
    content[content.index(b"TREE") + at] = value
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(FileError):
        convert(tmp_path / "a.h5")
