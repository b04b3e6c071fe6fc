"""TFLite: small networks that hold nearly every operator, beside what LiteRT gave for the same inputs.

`files/NAME.tflite` is by TensorFlow's converter; `files/NAME.npz` holds inputs and LiteRT's results.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.tflite import convert, file
from trilobite.inference.formats.tflite.file import read
from trilobite.inference.formats.tflite.names import CODES
from trilobite.inference.formats.tflite.rules import RULES

onnx = pytest.importorskip("onnx")
FILES = Path(__file__).parent / "files"
NAMES = sorted(p.stem for p in FILES.glob("*.tflite"))


def values(name: str, kind: str) -> list[Any]:
    with np.load(FILES / f"{name}.npz") as found:
        return [found[f"{kind}{k}"] for k in range(sum(n.startswith(kind) for n in found.files))]


def by_import(model: Any, feeds: dict[str, Any]) -> list[Any]:
    return [np.asarray(y) for y in load(model, target="reference").run(feeds).values()]


@pytest.mark.parametrize("name", NAMES)
def test_networks_give_what_litert_gives(name: str) -> None:
    model = convert(FILES / f"{name}.tflite")
    onnx.checker.check_model(model, full_check=True)
    feeds = dict(zip((i.name for i in model.graph.input), values(name, "in"), strict=True))
    wanted = values(name, "out")
    found = by_import(model, feeds)
    assert len(found) == len(wanted)
    for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert got.shape == want.shape and got.dtype == want.dtype, k
        if want.dtype.kind == "f":
            size = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6 * size, err_msg=f"output {k}")
        else:
            # of quantised networks: LiteRT rounds its integer scales, so a code may differ by one
            close = 1 if name.startswith("cnn") else 0
            assert np.abs(got.astype(np.int64) - want.astype(np.int64)).max() <= close, k


def test_variables_are_inputs_with_a_default_and_outputs() -> None:
    """LiteRT keeps them from run to run; a session gives them back."""
    session = load(convert(FILES / "stream.tflite"), target="reference")
    assert [i.name for i in session.inputs] == ["x"]
    assert [o.name for o in session.outputs] == ["y", "number", "history_next", "count_next"]
    with np.load(FILES / "stream.npz") as kept:
        first = session.run({"x": kept["in0"]})
        rows = [(kept[f"x{k}"], kept[f"y{k}"], kept[f"n{k}"]) for k in (1, 2)]
        np.testing.assert_allclose(first["y"], kept["out0"], rtol=1e-6)
    state = {name.removesuffix("_next"): first[name] for name in ("history_next", "count_next")}
    for x, y, number in rows:
        found = session.run({"x": x, **state})
        np.testing.assert_allclose(found["y"], y, rtol=1e-6)
        assert found["number"] == number
        state = {"history": found["history_next"], "count": found["count_next"]}


@pytest.mark.parametrize(
    ("name", "codes", "why"),
    [
        ("stream", {143: 101}, "on variables themselves"),  # ABS of a handle
        ("stream", {142: 110}, "READ_VARIABLE of a variable that another network holds"),
        ("spectra", {134: 101}, "an operation on complex numbers"),  # ABS of what RFFT2D gave
        ("spectra", {131: 0}, "REAL of real numbers"),
    ],
)
def test_what_is_not_done_with_variables_and_complex_numbers_is_named(
    tmp_path: Path, name: str, codes: dict[int, int], why: str
) -> None:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(_recoded(bytearray((FILES / f"{name}.tflite").read_bytes()), codes))
    with pytest.raises(FileError, match=why):
        convert(path)


def test_quantised_weights_keep_their_bytes() -> None:
    network = read(FILES / "cnn_int8.tflite").subgraphs[0]
    kept = {t.raw_data for t in convert(FILES / "cnn_int8.tflite").graph.initializer}
    weights = [network.values[o.inputs[1]].array for o in network.operators if o.name == "CONV_2D"]
    assert len(weights) >= 4
    for w in weights:
        assert w is not None and w.dtype == np.int8
        assert np.ascontiguousarray(w.transpose(0, 3, 1, 2)).tobytes() in kept


def test_a_chain_of_layers_has_a_transpose_at_its_ends_alone() -> None:
    model = convert(FILES / "cnn_float.tflite")
    assert sum(n.op_type == "Transpose" for n in model.graph.node) == 1


def test_how_many_operators_there_are_and_how_many_are_tried_here() -> None:
    tried = {o.name for name in NAMES for g in read(FILES / f"{name}.tflite").subgraphs for o in g.operators}
    assert len(RULES) >= 110 and len(tried & {*RULES}) >= 95


def test_operators_that_are_not_known_are_all_named_at_once(tmp_path: Path) -> None:
    """Other numbers in the place of those of TANH and SIN."""
    raw = bytearray((FILES / "unary.tflite").read_bytes())
    path = tmp_path / "m.tflite"
    path.write_bytes(_recoded(raw, {28: 10, 66: 30}))
    with pytest.raises(
        FileError, match=r"(?s)2 kinds of operations.*HASHTABLE_LOOKUP.*SKIP_GRAM|SKIP_GRAM.*HASH"
    ):
        convert(path)


def _recoded(raw: bytearray, numbers: dict[int, int]) -> bytes:
    """Both fields of an operator's code replaced."""
    from trilobite.inference.formats.flatbuffers import root

    for code in root(memoryview(bytes(raw)), "test", b"TFL3").tables(1):
        was = max(int(code.number(0, "b")), int(code.number(3, "i")))
        if was in numbers:
            for slot in (0, 3):
                at = code._field(slot)
                if at:
                    raw[at] = numbers[was]
    return bytes(raw)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


PLAIN = {
    "RELU6": lambda x: np.clip(x, 0, 6),
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1),
    "GELU": _gelu,
    "ZEROS_LIKE": np.zeros_like,
}


@pytest.mark.parametrize("name", list(PLAIN))
def test_operators_that_no_file_holds(name: str, tmp_path: Path) -> None:
    """Their numbers in the place of TANH's, on numbers around every bend; the others stay as they were."""
    number = next(n for n, known in CODES.items() if known == name)
    raw = bytearray((FILES / "unary.tflite").read_bytes())
    path = tmp_path / "m.tflite"
    path.write_bytes(_recoded(raw, {28: number}))
    (network,) = read(path).subgraphs
    (changed,) = (o for o in network.operators if o.name == name)
    model = convert(path)
    feeds = dict(zip((i.name for i in model.graph.input), values("unary", "in"), strict=True))
    at = network.inputs.index(changed.inputs[0])
    entered = list(feeds)[at]
    shape = feeds[entered].shape
    wide = np.linspace(0.2, 9, feeds[entered].size).reshape(shape).astype(np.float32)
    for x in (wide, -wide, feeds[entered]):
        found = by_import(model, {**feeds, entered: x})
        np.testing.assert_allclose(
            found[network.outputs.index(changed.outputs[0])], PLAIN[name](x), rtol=1e-5, atol=1e-6
        )


REFUSED = {
    "empty": (lambda raw: b"", "the file is empty"),
    "mark": (lambda raw: raw[:4] + b"TFL2" + raw[8:], "not marked TFL3"),
    "short": (lambda raw: raw[:12], "not marked TFL3"),
    "root": (lambda raw: b"\xff\xff\xff\x7f" + raw[4:], "within the file's"),
}


@pytest.mark.parametrize("fault", list(REFUSED))
def test_doubtful_files_are_refused(fault: str, tmp_path: Path) -> None:
    change, message = REFUSED[fault]
    path = tmp_path / "m.tflite"
    path.write_bytes(change((FILES / "unary.tflite").read_bytes()))
    with pytest.raises(FileError, match=message):
        convert(path)


def test_constants_without_elements_are_known() -> None:
    """The shape of a scalar has no numbers that a file could hold; what an operator makes is no constant."""
    whole, number = np.dtype(np.int32), np.dtype(np.float32)
    values = [
        file.Value("x", (1,), number, None, None),
        file.Value("shape", (0,), whole, None, None),
        file.Value("y", (), number, None, None),
        file.Value("none", (0, 3), number, None, None),
        file.Value("huge", (0, 2**31 - 1, 2**31 - 1, 2**31 - 1), number, None, None),
    ]
    operators = [
        file.Operator("RESHAPE", [0, 1], [2], None),
        file.Operator("SLICE", [0], [3], None),
    ]
    graph = file.Subgraph("g", values, operators, [0], [2])
    file._check_indices(graph, "here")
    arrays = [v.array for v in file._with_empty(graph)]
    assert [a is None for a in arrays] == [True, False, True, True, True]
    assert arrays[1] is not None and arrays[1].shape == (0,) and arrays[1].dtype == whole
