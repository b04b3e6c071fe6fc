"""The commands on model files: inputs of every kind, JSON, exit codes, and errors before anything runs."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from trilobite.base.errors import ArgumentError, FileError
from trilobite.cli import COMMANDS
from trilobite.cli.application import application
from trilobite.cli.models import feeds as reading
from trilobite.cli.models.feeds import Pixels, drawn, feeds, sizes_of, sound
from trilobite.cli.models.subject import Input, ZooSubject, open_model
from trilobite.cli.models.verbs import apart, described, write_outputs
from trilobite.framework.checkpoint.durable import NotFoundError, StorageError

onnx = pytest.importorskip("onnx")
RNG = np.random.default_rng(2)
F32 = np.dtype(np.float32)


def call(*words: object) -> Result:
    return CliRunner().invoke(application(COMMANDS), [str(word) for word in words])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = mean of relu(image · w + b) over the picture."""
    helper, t = onnx.helper, onnx.TensorProto
    w = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
    b = RNG.standard_normal(4).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("image", t.FLOAT, [1, 3, "h", "w_"])],
        [helper.make_tensor_value_info("y", t.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(made, path)
    return path


def reference(model: Path, image: np.ndarray) -> np.ndarray:
    from onnx.reference import ReferenceEvaluator

    found: np.ndarray = ReferenceEvaluator(str(model)).run(None, {"image": image})[0]
    return found


def test_run_gives_what_the_model_means(model: Path, tmp_path: Path) -> None:
    image = RNG.standard_normal((1, 3, 9, 7)).astype(np.float32)
    np.save(tmp_path / "x.npy", image)
    done = call("run", model, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    wanted = reference(model, image)
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], wanted, rtol=1e-5)
    np.testing.assert_allclose(told["outputs"]["y"]["first"], wanted[0], rtol=1e-5)
    assert told["outputs"]["y"]["shape"] == [1, 4] and told["on"] == "cpu"


def test_a_picture_is_cut_resized_and_normalised(model: Path, tmp_path: Path) -> None:
    levels = RNG.integers(0, 256, (6, 10, 3), np.uint8)
    Image.fromarray(levels).save(tmp_path / "a.png")
    wanted = Input("image", F32, (1, 3, 6, 6))
    found = reading.picture(tmp_path / "a.png", wanted, {}, Pixels((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
    middle = levels[:, 2:8].astype(np.float32) / 255
    by_hand = ((middle - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]).transpose(2, 0, 1)[None]
    np.testing.assert_allclose(found, by_hand, rtol=1e-5, atol=1e-6)
    last = reading.picture(
        tmp_path / "a.png", Input("i", np.dtype(np.uint8), (1, 6, 6, 3)), {}, Pixels(raw=True)
    )
    np.testing.assert_array_equal(last[0], levels[:, 2:8])
    blue = reading.picture(
        tmp_path / "a.png", Input("i", np.dtype(np.uint8), (1, 6, 6, 3)), {}, Pixels(raw=True, bgr=True)
    )
    np.testing.assert_array_equal(blue[0], levels[:, 2:8, ::-1])
    open_sizes = reading.picture(
        tmp_path / "a.png", Input("i", F32, (1, 3, "h", "w")), {"h": 3, "w": 5}, Pixels()
    )
    assert open_sizes.shape == (1, 3, 3, 5)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sound_of_every_width_lies_between_minus_one_and_one(tmp_path: Path, width: int) -> None:
    values = np.asarray([0.0, 0.5, -0.5, 0.25])
    whole = np.rint(values * 2 ** (8 * width - 1)).astype(np.int64)
    raw = b"".join(
        bytes([int(v) + 128]) if width == 1 else int(v).to_bytes(width, "little", signed=True) for v in whole
    )
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(width), file.setframerate(16000)
        file.writeframes(raw)
    np.testing.assert_allclose(sound(tmp_path / "a.wav"), values, atol=2.0 ** (1 - 8 * width))


def test_inputs_are_named_or_taken_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[[1, 2], [3, 4]]")
    (tmp_path / "b.json").write_text('{"second": [5, 6]}')
    inputs = (Input("first", F32, (2, 2)), Input("second", np.dtype(np.int64), (2,)))
    for words in (["second=" + str(tmp_path / "b.json"), str(tmp_path / "a.json")],
                  [str(tmp_path / "a.json"), str(tmp_path / "b.json")]):  # fmt: skip
        found = feeds(inputs, words, {}, Pixels())
        assert found["first"].tolist() == [[1, 2], [3, 4]] and found["second"].tolist() == [5, 6]
    with pytest.raises(ArgumentError, match="no input 'third'"):
        feeds(inputs, ["third=x.json"], {}, Pixels())
    with pytest.raises(ArgumentError, match="more files than inputs"):
        feeds(inputs[:1], [str(tmp_path / "a.json")] * 2, {}, Pixels())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", "[[1, 2", "the numbers cannot be read"),
        ("a.npy", "no array", "the array cannot be read"),
        ("a.wav", "no sound", "the sound cannot be read"),
        ("a.txt", "text", r"an input with the ending '\.txt'"),
    ],
)
def test_broken_files_are_told(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=said):
        reading.read(tmp_path / name, Input("x", F32, (2,)), {}, Pixels())


def test_sizes_and_random_inputs() -> None:
    assert sizes_of(["h=256", "w=8"]) == {"h": 256, "w": 8}
    for wrong in ("h", "h=", "h=-1", "=3", "h=x"):
        with pytest.raises(ArgumentError, match="a size"):
            sizes_of([wrong])
    rng = np.random.default_rng(0)
    assert drawn(Input("x", F32, ("n", 3, None, "w")), {"n": 2, "w": 8}, rng).shape == (2, 3, 224, 8)
    assert drawn(Input("x", F32, ("n", "c", "h", "w")), {}, rng).shape == (1, 1, 224, 224)
    assert drawn(Input("x", F32, ("n", "t", None)), {}, rng).shape == (1, 1, 1)  # no picture
    assert drawn(Input("x", np.dtype(np.bool_), (9,)), {}, rng).dtype == np.bool_


def test_inspect_counts(model: Path) -> None:
    told = json.loads(call("inspect", model, "--json").output)
    assert told["parameters"] == 4 * 27 + 4 and told["nodes"] == 4
    assert told["operators"] == {"Conv": 1, "Relu": 1, "GlobalAveragePool": 1, "Flatten": 1}
    assert told["inputs"] == {"image": "float32[1, 3, h, w_]"}
    assert "112 parameters" in call("inspect", model).output


def test_compare_tells_equal_from_different(model: Path, tmp_path: Path) -> None:
    done = call("compare", model, "--on", "cpu", "--on", "reference", "--size", "h=8", "--size", "w_=5")
    assert done.exit_code == 0 and "y: agrees" in done.output
    strict = call("compare", model, "--tolerance", "-1", "--size", "h=8", "--size", "w_=5", "--json")
    assert strict.exit_code == 3
    assert json.loads(strict.output)["outputs"][0]["agrees"] is False
    assert call("compare", model, "--on", "cpu").exit_code == 1


def test_bench_measures(model: Path) -> None:
    told = json.loads(
        call("bench", model, "--repeats", "3", "--size", "h=8", "--size", "w_=5", "--json").output
    )
    row = told["systems"]["cpu"]
    assert 0 < row["minimum"] <= row["median"] and told["repeats"] == 3


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    done = call("run", "resnet19")
    assert done.exit_code == 1 and "there is no model 'resnet19'" in str(done.exception)
    assert "is a program of the processor" in str(call("run", "a.mlu").exception)


def test_results_are_apart_by_their_largest_difference() -> None:
    a = np.asarray([1.0, np.nan, np.inf, -2.0], np.float32)
    assert apart("y", a, a, 0.0)["agrees"]
    b = a.copy()
    b[3] = -2.5
    row = apart("y", a, b, 0.1)
    assert not row["agrees"] and row["error"] == 0.5 and row["largest"] == 2.5
    assert not apart("y", a, np.asarray([1.0, 0.0, np.inf, -2.0], np.float32), 1.0)["agrees"]
    assert not apart("y", a, a[:2], 1.0)["agrees"]
    texts: Any = np.asarray(["a", "b"], object)
    assert apart("y", texts, texts.copy(), 0.0)["agrees"]


def test_the_best_labels_are_named() -> None:
    row = described(np.asarray([[0.1, 0.7, 0.2]], np.float32), ["cat", "dog", "cup"])
    assert [name for name, _ in row["best"]] == ["dog", "cup", "cat"]


def test_profile_writes_a_page_with_a_subject_a_target(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    sizes = ("--size", "h=8", "--size", "w_=6", "--repeats", "2")
    done = call("profile", model, "--on", "cpu", "--on", "dlp:dlp-s", *sizes, "-o", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [subject["target"] for subject in data["subjects"]] == ["cpu", "dlp:dlp-s"]
    layers = next(t for t in data["subjects"][1]["tables"] if t["title"] == "Layers")
    assert any("conv" in str(row[0]) for row in layers["rows"])
    assert sum(row[2] for row in layers["rows"]) == data["subjects"][1]["total"]


def test_profile_of_a_program(tmp_path: Path) -> None:
    source = tmp_path / "a.s"
    source.write_text("LI $1, #nram(0)\nSMOVE $2, #64\nVEXP $1, $2, $1\n")
    assert "cycles" in call("profile", source, "--machine", "dlp-s").output
    assert call("profile", source, "-o", tmp_path / "a.html").exit_code == 0
    assert "VEXP" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_compare_lists_layers_and_finds_none_apart(model: Path) -> None:
    done = call("compare", model, "--size", "h=6", "--size", "w_=5", "--layers", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [row["operator"] for row in found["layers"]] == ["Conv", "Relu", "GlobalAveragePool", "Flatten"]
    assert found["departs"] is None


def test_compare_names_the_first_layer_that_differs(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine that is wrong from the activation on."""
    from onnx.reference import ReferenceEvaluator

    from trilobite.cli.models import layers, verbs

    def wrong(source: Any, name: str) -> Any:
        engine = ReferenceEvaluator(
            onnx.load_model_from_string(source) if isinstance(source, bytes) else source
        )

        def run(values: Any) -> dict[str, Any]:
            found = dict(zip(engine.output_names, engine.run(None, dict(values)), strict=True))
            return {n: v if n == "c" else v + 0.5 for n, v in found.items()}

        return run

    monkeypatch.setattr(verbs, "other_engine", wrong)
    monkeypatch.setattr(layers, "other_engine", wrong)
    words = ["compare", model, "--against", "onnxruntime", "--size", "h=6", "--size", "w_=5"]
    done = call(*words)
    assert done.exit_code == 3
    assert "first apart after Relu: r: DIFFERS, at most 0.5 apart" in done.output
    found = json.loads(call(*words, "--json").output)
    assert found["departs"]["name"] == "r"
    assert "layers" not in found


@pytest.mark.parametrize("option", ["--on", "--machine"])
def test_compare_takes_targets_by_both_names(option: str, model: Path) -> None:
    sizes = ["--size", "h=6", "--size", "w_=5"]
    assert call("compare", model, option, "cpu", option, "reference", *sizes).exit_code == 0


def test_inspect_counts_the_work_of_a_run(model: Path) -> None:
    words = ["inspect", model, "--cost", "--size", "h=6", "--size", "w_=5"]
    found = json.loads(call(*words, "--json").output)
    work = {row["operator"]: row["operations"] for row in found["layers"]}
    assert 2 * 4 * 27 * 30 <= work["Conv"] <= 2 * 4 * 27 * 30 + 8 * 30  # products and sums; the bias besides
    assert found["operations"] == pytest.approx(sum(work.values()))
    assert found["sizes"] == {"image": [1, 3, 6, 5]}
    assert "million operations" in call(*words).output


def test_a_network_of_the_zoo_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = open_model("mlp", "reference")
    assert isinstance(found, ZooSubject)
    with pytest.raises(ArgumentError, match="there is no model 'mlpp'"):
        open_model("mlpp")


def test_inspect_names_each_node(tmp_path: Path) -> None:
    helper, t = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="first"), helper.make_node("Neg", ["r"], ["y"])]
    sides = [helper.make_tensor_value_info(name, t.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph(nodes, "two", sides[:1], sides[1:])
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    told = json.loads(call("inspect", path, "--json").output)
    assert [row["name"] for row in told["layers"]] == ["first", "y"]
    done = json.loads(call("optimize", path, "-o", tmp_path / "small.onnx", "--json").output)
    assert 0 <= done["seconds"] < 600


@pytest.mark.parametrize("most", [1.0, 255.0])
def test_a_picture_as_output_is_written_in_its_range(tmp_path: Path, most: float) -> None:
    image = np.zeros((1, 3, 4, 5), np.float32)
    image[:, 0], image[:, 1] = most, most * 0.4
    write_outputs(str(tmp_path / "out.png"), {"y": image})
    pixels = np.asarray(Image.open(tmp_path / "out.png"))
    assert pixels.shape == (4, 5, 3) and (pixels[2, 3] == (255, 102, 0)).all()


def test_a_place_that_cannot_be_written_is_an_error_and_not_a_traceback(model: Path, tmp_path: Path) -> None:
    nowhere, sizes = tmp_path / "none" / "there", ("--size", "h=8", "--size", "w_=6")
    for words in (
        ("optimize", model, "-o", f"{nowhere}.onnx", "--no-compare"),
        ("convert", model, f"{nowhere}.onnx"),
        ("run", model, *sizes, "-o", f"{nowhere}.npz"),
        ("run", model, *sizes, "-o", f"{nowhere}.npy"),
        ("build", model, *sizes, "-o", f"{nowhere}.tbm"),
    ):
        error = call(*words).exception
        assert isinstance(error, StorageError | NotFoundError), (words, error)
        assert "No such file or directory" in str(error), words


def test_an_input_is_given_once(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 3, 8, 6), np.float32))
    done = call("run", model, "-i", f"image={tmp_path / 'a.npy'}", "-i", f"image={tmp_path / 'a.npy'}")
    assert isinstance(done.exception, ArgumentError)
    assert "a second file for 'image'" in str(done.exception)


def test_labels_that_fit_no_output_are_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    done = call("run", model, "--size", "h=8", "--size", "w_=6", "--labels", tmp_path / "labels.txt")
    assert isinstance(done.exception, ArgumentError)
    assert "2 labels" in str(done.exception) and "last axis" in str(done.exception)


def test_a_bundle_runs_where_it_was_built_for(model: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "m.tbm"
    assert call("build", model, "--size", "h=8", "--size", "w_=6", "-o", bundle).exit_code == 0
    sizes = ("--size", "h=8", "--size", "w_=6")
    assert json.loads(call("run", bundle, *sizes, "--json").output)["on"] == "cpu"
    error = call("run", bundle, *sizes, "--on", "dlp:dlp-s").exception
    assert isinstance(error, ArgumentError) and "built for cpu, not for dlp:dlp-s" in str(error)


def test_profile_as_json(model: Path) -> None:
    done = call("profile", model, "--size", "h=8", "--size", "w_=6", "--repeats", "2", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    assert facts["on"]["cpu"]["steps"] and facts["on"]["cpu"]["steps"][0]["milliseconds"] >= 0
    assert isinstance(call("profile", model, "--json", "-o", "x.html").exception, ArgumentError)


@pytest.mark.parametrize("agreeing", [(), (True,), (True, True), (True, False), (False, True), (False,)])
@pytest.mark.parametrize("verb", ["optimize", "compare"])
def test_one_result_apart_is_enough_to_differ(
    verb: str, agreeing: tuple[bool, ...], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 3 if any result is apart, and 0 otherwise, also where nothing was compared."""
    rows = [apart(f"y{n}", np.zeros(2), np.full(2, float(not same)), 0.5) for n, same in enumerate(agreeing)]
    if verb == "optimize":
        monkeypatch.setattr("trilobite.cli.models.files._compared", lambda *_: rows)
        done = call(verb, model, "-o", tmp_path / "less.onnx", *([] if agreeing else ["--no-compare"]))
        assert (tmp_path / "less.onnx").is_file()
    else:
        left = iter(rows)
        several = SimpleNamespace(inputs=(), run=lambda values: {row["name"]: np.zeros(2) for row in rows})
        monkeypatch.setattr("trilobite.cli.models.verbs.open_model", lambda *_: several)
        monkeypatch.setattr("trilobite.cli.models.verbs.apart", lambda *_: next(left))
        done = call(verb, "several")
    assert done.exit_code == (3 if False in agreeing else 0), done.output
