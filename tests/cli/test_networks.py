"""Commands on networks of the zoo, facts of the machine, and inputs of every form: what reaches whom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import trilobite as tb
from trilobite.base.errors import ArgumentError, DataError, FileError
from trilobite.cli import COMMANDS, compiler, info, networks, processor
from trilobite.cli.application import application
from trilobite.cli.models import feeds as reading
from trilobite.cli.models.feeds import Pixels, drawn, feeds, numbers, sizes_of
from trilobite.cli.models.subject import Input, ZooSubject
from trilobite.ir.text import parse, show

F32 = np.dtype(np.float32)
RNG = np.random.default_rng(5)


# -- networks -----------------------------------------------------------------------------------------------


def test_inference_of_a_network_is_its_output_without_gradients() -> None:
    tb.manual_seed(1)
    subject = networks.network("mlp", 3, training=False)
    (x,) = subject.args
    assert tuple(x.shape) == (3, 784) and x.dtype == np.float32 and not subject.training
    with subject.mode():
        assert not tb.is_grad_enabled()
        out = subject.jitted(x)
    assert tb.is_grad_enabled() and tuple(out.shape) == (3, 10)
    tb.manual_seed(1)
    plain = tb.zoo.create("mlp").eval()
    np.testing.assert_allclose(out.numpy(), plain(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    graph, _ = subject.lowered()
    assert graph.name == "mlp" and [str(t) for t in graph.output_types] == ["f32[3,10]"]


def test_training_is_a_step_with_a_label_for_each_row_of_scores() -> None:
    subject = networks.network("lenet", 4, training=True)
    x, y = subject.args
    assert subject.training and tuple(x.shape) == (4, 1, 28, 28) and tuple(y.shape) == (4,)
    assert y.dtype == np.int64 and y.numpy().min() >= 0 and y.numpy().max() < 10
    with subject.mode():
        assert tb.is_grad_enabled()
        losses = [float(subject.jitted(x, y)) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.01 and abs(losses[0] - np.log(10)) < 0.5


def test_texts_have_symbols_of_their_alphabet() -> None:
    (x,) = networks.network("char_lstm", 2, training=False).args
    assert tuple(x.shape) == (2, 64) and x.numpy().min() >= 0 and 80 < x.numpy().max() < 96
    shaped = networks._labels(lambda x: tb.zeros(2, 5, 7, 7), np.zeros((2, 3), np.float32))
    assert tuple(shaped[0].shape) == (2 * 7 * 7,) and shaped[0].numpy().max() < 5  # classes are moved last


def test_what_is_no_network_is_told() -> None:
    with pytest.raises(ArgumentError, match="a network named 'mlq'"):
        networks.network("mlq", 1, False)
    with pytest.raises(ArgumentError, match="a batch of 0"):
        networks.network("mlp", 0, False)


def test_a_graph_is_read_from_its_text(tmp_path: Path) -> None:
    graph, _ = networks.network("mlp", 1, False).lowered()
    (tmp_path / "a.txt").write_text(show(graph))
    assert show(networks.recorded(str(tmp_path / "a.txt"), 1, False)[0]) == show(graph)
    with pytest.raises(DataError, match="the graph cannot be read"):
        networks.recorded(str(tmp_path / "none.txt"), 1, False)
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(DataError, match="the graph cannot be read"):
        networks.recorded(str(tmp_path / "b.txt"), 1, False)


# -- the compiler's commands --------------------------------------------------------------------------------


def test_compile_shows_levels_passes_and_leaves_passes_out(tmp_path: Path) -> None:
    graph = tb.jit(lambda x: x.sin() * 2 + x.sin()).lower(tb.ones(4)).graph
    (tmp_path / "f.txt").write_text(show(parse(show(graph))))
    path = str(tmp_path / "f.txt")
    plain, without = compiler.compile(path), compiler.compile(path, skip=["reduce_strength"])
    assert "= mul " not in plain and "= mul " in without  # twice a number is a sum
    assert [compiler.compile(path, stop_after=p).count("= sin ") for p in ("dce", "cse")] == [2, 1]
    passes = compiler.compile(listed=True)
    assert "cse" in passes and "cse" in compiler.compile(path, listed=True)
    assert compiler.compile(path, listed=True) != passes  # of this graph: what fired in each
    assert compiler.compile(path, emit="llvm") != plain and "define" in compiler.compile(path, emit="llvm")
    with pytest.raises(ArgumentError, match="trilobite compile without a network"):
        compiler.compile()


def test_kernels_are_timed_and_written(tmp_path: Path) -> None:
    told = compiler.kernels("mlp", repeats=1)
    wrote = compiler.kernels("mlp", batch=2, repeats=1, output=str(tmp_path)).splitlines()
    files = [line.removeprefix("wrote ") for line in wrote if line.startswith("wrote ")]
    assert "mlp" in told and "wrote" not in told
    assert files and all(Path(file).is_file() and Path(file).parent == tmp_path for file in files)


def test_tune_searches_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def tune(seconds: float, log: Any, seed: int) -> str:
        given.append((seconds, seed))
        return "found"

    def made(graph: Any, target: str, usage: Any) -> Any:
        given.append((graph.name, target))
        return SimpleNamespace(tune=tune)

    monkeypatch.setattr("trilobite.compiler.targets.registry.executable", made)
    assert compiler.tune("mlp", budget="2m", seed=7) == "found"
    assert given == [("mlp", "cpu"), (120.0, 7)]
    with pytest.raises(ArgumentError, match="a budget of '2d'"):
        compiler.tune("mlp", budget="2d")


@pytest.mark.parametrize("peers", [True, False])
def test_bench_runs_where_the_peers_are(peers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    there = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda p: peers if p.parent.name == "bin" else there(p))
    monkeypatch.setattr(
        subprocess, "run", lambda words, **k: given.append(words) or SimpleNamespace(returncode=3)
    )
    with pytest.raises(typer.Exit) as left:
        compiler.bench(quick=True, only="mlp")
    assert left.value.exit_code == 3 and given[0][1:6] == [
        "-m", "benchmarks.harness", "--quick", "--only", "mlp",
    ]  # fmt: skip
    assert given[0][6:] == ([] if peers else ["--systems", "trilobite"])
    assert (given[0][0] == sys.executable) != peers


# -- the processor's commands, and what a report of a bug contains ------------------------------------------


def test_programs_are_assembled_beside_their_source(tmp_path: Path) -> None:
    source = tmp_path / "a.s"
    source.write_text(".entry main\nmain: LI $7, #5\nHALT\n")
    processor.asm(str(source))
    (made,) = (p for p in tmp_path.iterdir() if p != source)
    assert made.stem == "a"
    other = tmp_path / "b.bin"
    processor.asm(str(source), str(other))
    assert other.read_bytes() == made.read_bytes()
    text = processor.disasm(str(other))
    assert "main:" in text and "SLI $7, #5" in text and "HALT" in text


def test_debug_hands_its_words_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr("trilobite.processor.tools.session.debug", lambda *words: given.append(words))
    processor.debug("a.s", "dlp-m", "main", ["1"], "2x3", "union1", False, 0)
    assert given == [("a.s", "dlp-m", "main", ["1"], "2x3", "union1", False, 0)]


def test_info_tells_one_fact_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    info.info()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [name for name, _ in info.facts()]
    told = dict(info.facts())
    assert told["numpy"] == np.__version__ and told["trilobite"] == tb.__version__
    assert told["cores"].endswith("usable of " + str(os.cpu_count()))
    assert all(
        line.startswith(f"{name:<12}{value}") for line, (name, value) in zip(lines, told.items(), strict=True)
    )
    assert info._version("no-such-package") == "not installed"
    monkeypatch.setattr(info, "directory", lambda: None)
    assert info._cache() == "none, for this user has no home"
    assert info._vector_features({"flags": "fpu avx2 sse fma"}) == ["avx2", "fma"]
    assert info._vector_features({"Features": "fp asimd"}) == ["asimd"] and info._vector_features({}) == []


def test_the_cache_is_told_with_whether_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(info, "directory", lambda: tmp_path)
    assert info._cache() == f"{tmp_path} (exists)"
    monkeypatch.setattr(info, "directory", lambda: tmp_path / "x")
    assert info._cache() == f"{tmp_path / 'x'} (not there yet)"


def test_processors_are_read_up_to_the_first_blank_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "model name\t: A chip: fast\nflags\t: avx fma\n\nmodel name\t: Another\n"
    monkeypatch.setattr(Path, "read_text", lambda self: text)
    assert info._processor() == {"model name": "A chip: fast", "flags": "avx fma"}

    def fails(self: Path) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", fails)
    assert info._processor() == {}


def test_the_version_is_told() -> None:
    done = CliRunner().invoke(application(COMMANDS), ["--version"])
    assert done.exit_code == 0 and done.stdout == f"trilobite {tb.__version__}\n"


# -- inputs -------------------------------------------------------------------------------------------------


def test_the_middle_of_a_picture_in_every_shape(tmp_path: Path) -> None:
    """Where the wanted shape fits without resizing, the pixels are those in the middle."""
    tall, wide = RNG.integers(0, 256, (9, 4, 3), np.uint8), RNG.integers(0, 256, (5, 8, 3), np.uint8)
    Image.fromarray(tall).save(tmp_path / "tall.png")
    Image.fromarray(wide).save(tmp_path / "wide.png")
    raw, bytes_ = Pixels(raw=True), np.dtype(np.uint8)
    found = reading.picture(tmp_path / "tall.png", Input("i", bytes_, (1, 4, 4, 3)), {}, raw)
    np.testing.assert_array_equal(found[0], tall[2:6])
    found = reading.picture(tmp_path / "wide.png", Input("i", bytes_, (1, 3, 5, 3)), {}, raw)
    np.testing.assert_array_equal(found[0].transpose(1, 2, 0), wide[:, 2:5])
    whole = reading.picture(tmp_path / "wide.png", Input("i", bytes_, (1, 3, None, None)), {}, raw)
    np.testing.assert_array_equal(whole[0].transpose(1, 2, 0), wide)
    grey = reading.picture(tmp_path / "wide.png", Input("i", F32, (1, 1, 5, 8)), {}, Pixels())
    np.testing.assert_allclose(grey[0, 0], wide / 255 @ [0.299, 0.587, 0.114], rtol=1e-4, atol=1e-5)
    with pytest.raises(ArgumentError, match="a picture for the input"):
        reading.picture(tmp_path / "wide.png", Input("i", F32, (3, 5, 8)), {}, Pixels())
    files = {"image": tmp_path / "tall.png"}
    by_read = reading.read(files["image"], Input("image", F32, (1, 3, 9, 4)), {}, Pixels())
    np.testing.assert_allclose(by_read[0].transpose(1, 2, 0), tall / 255, atol=1e-6)


def test_arrays_become_what_the_input_wants(tmp_path: Path) -> None:
    a, b = RNG.normal(size=(2, 3)), RNG.integers(0, 9, 4)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "two.npz", x=a, y=b)
    np.savez(tmp_path / "one.npz", z=a)
    read = lambda name, wanted: reading.read(tmp_path / name, wanted, {}, Pixels())  # noqa: E731
    one = read("a.npy", Input("x", F32, (1, 2, 3)))
    assert one.shape == (1, 2, 3) and one.dtype == F32
    np.testing.assert_array_equal(one[0], a.astype(F32))
    assert read("a.npy", Input("x", F32, (2, 3))).shape == (2, 3)
    np.testing.assert_array_equal(read("two.npz", Input("y", np.dtype(np.int64), (4,))), b)
    np.testing.assert_array_equal(read("one.npz", Input("x", np.dtype(np.float64), (2, 3))), a)
    with pytest.raises(FileError, match="the file has no array 'q'"):
        read("two.npz", Input("q", F32, (2, 3)))
    with pytest.raises(FileError, match="there is no such file"):
        read("none.npy", Input("x", F32, (2,)))


@pytest.mark.parametrize(
    "dtype", ["int64", "int8", "uint8", "int4", "bool", "float16", "bfloat16", "complex64"]
)
@pytest.mark.parametrize("form", ["npy", "json"])
def test_numbers_of_files_keep_their_values(tmp_path: Path, dtype: str, form: str) -> None:
    """Integers that would become others are refused; what fits arrives as it is."""
    wanted = Input("x", np.dtype(getattr(ml_dtypes, dtype, dtype)), (2,))
    lists = [[0, 1], [1.0, 0.0], [0.5, 1], [300, 1], [-200, 0], [2**70, 1], [True, False], [1, float("nan")]]
    for values in lists:
        given = np.asarray(values)
        path = tmp_path / f"x.{form}"
        if form == "json":
            path.write_text(json.dumps(values))
        elif given.dtype == object:
            continue
        else:
            np.save(path, given)
        with np.errstate(all="ignore"):
            held = not dtype.startswith(("int", "uint", "bool")) or (
                given.dtype != object and np.array_equal(given.astype(wanted.dtype), given)
            )
        if not held:
            with pytest.raises(FileError, match=r"numbers of \w+ are none of|an array of object"):
                reading.read(path, wanted, {}, Pixels())
            continue
        found = reading.read(path, wanted, {}, Pixels())
        with np.errstate(all="ignore"):
            expected = np.asarray(values, np.float64).astype(wanted.dtype)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype(np.complex128), expected.astype(np.complex128))


def test_files_that_name_no_bfloat16(tmp_path: Path) -> None:
    a = RNG.normal(size=3).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", a)
    found = reading.read(tmp_path / "a.npy", Input("x", a.dtype, (3,)), {}, Pixels())
    assert found.dtype == a.dtype and found.tobytes() == a.tobytes()
    with pytest.raises(FileError, match="an array of"):
        reading.read(tmp_path / "a.npy", Input("x", F32, (3,)), {}, Pixels())


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sound_that_was_cut_off(tmp_path: Path, channels: int, width: int) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(bytes(range(channels * width * 5)))
    data = (tmp_path / "a.wav").read_bytes()
    whole = reading.sound(tmp_path / "a.wav")
    for less in range(1, channels * width + 1):
        (tmp_path / "a.wav").write_bytes(data[:-less])
        np.testing.assert_array_equal(reading.sound(tmp_path / "a.wav"), whole[..., :4])


def test_texts_and_long_names(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('["a", 1]')
    with pytest.raises(FileError, match="not all of these are texts"):
        reading.read(tmp_path / "x.json", Input("x", np.dtype(object), (2,)), {}, Pixels())
    with pytest.raises(FileError, match="there is no such file"):
        reading.read(tmp_path / ("x" * 300), Input("x", F32, (2,)), {}, Pixels())
    with pytest.raises(ArgumentError, match="no input"):
        reading.feeds([Input("x", F32, (2,))], ["y=" + "1," * 300], {}, Pixels())


def test_sizes_that_a_model_does_not_have() -> None:
    inputs = [Input("x", F32, ("n", 3))]
    with pytest.raises(ArgumentError, match="has no open size 'm'"):
        feeds(inputs, [], {"n": 2, "m": 3}, Pixels())
    for size in (10**15, 10**18 - 1):
        with pytest.raises(ArgumentError, match="random numbers for x"):
            feeds(inputs, [], {"n": size}, Pixels())
    with pytest.raises(ArgumentError, match="a size"):
        sizes_of(["n=" + "9" * 5000])


def test_what_is_drawn_has_the_declared_form() -> None:
    rng = np.random.default_rng(0)
    truths = drawn(Input("x", np.dtype(np.bool_), (40,)), {}, rng)
    assert truths.dtype == np.bool_ and 0 < truths.sum() < 40
    texts = drawn(Input("x", np.dtype(object), (2, "n")), {"n": 3}, rng)
    assert texts.shape == (2, 3) and texts[1, 2] == "text"
    whole = drawn(Input("x", np.dtype(np.uint8), (40,)), {}, rng)
    assert whole.dtype == np.uint8 and set(whole.tolist()) == {0, 1}
    plane = drawn(Input("x", F32, ("batch", None, "h", None)), {"h": 5}, rng)
    assert plane.shape == (1, 1, 5, 224) and drawn(Input("x", F32, (None, 3)), {}, rng).shape == (1, 3)
    again = feeds([Input("x", F32, (50,))], [], {}, Pixels(), seed=3)["x"]
    np.testing.assert_array_equal(again, np.random.default_rng(3).standard_normal(50).astype(F32))


def test_numbers_and_sizes_at_their_bounds() -> None:
    assert numbers("0.5,1", "mean") == (0.5, 1.0) and sizes_of(["h=1", "w=256"]) == {"h": 1, "w": 256}
    with pytest.raises(ArgumentError, match="a mean of '1;2'"):
        numbers("1;2", "mean")
    for word in ("h=0", "h=-1", "=5", "h", "h=x"):
        with pytest.raises(ArgumentError, match="a size"):
            sizes_of([word])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_network_of_the_zoo_in_another_format(dtype: str) -> None:
    subject = ZooSubject("mlp", "cpu")
    values = {"x": RNG.standard_normal((2, 784)).astype(np.float32)}
    before = subject.run(values)["y"]
    subject.convert(dtype, values)
    after = subject.run(values)["y"]
    assert values["x"].dtype == after.dtype == getattr(tb, dtype)
    np.testing.assert_allclose(after.astype("f8"), before, atol=1e-6 if dtype == "float64" else 0.1)
    with pytest.raises(ArgumentError, match="a network in int4"):
        subject.convert("int4", values)
    assert subject.last_runs == []
