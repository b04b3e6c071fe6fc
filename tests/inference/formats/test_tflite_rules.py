"""Operators of TFLite in files by hand beside NumPy: those, and those settings, that no kept network has."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inference.formats.flat_files import tensor, whole
from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.tflite import convert
from trilobite.inference.formats.tflite.names import CODES

pytest.importorskip("onnx")
NUMBERS = {name: number for number, name in CODES.items()}
TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9}
RNG = np.random.default_rng(1)
Operand = Any


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


def file(op: str, operands: list[Operand], options: dict[int, Any] | None, results: list[Any]) -> bytes:
    """One operator. Operands in a tuple are constants; None is one that is left out."""
    given = [o for o in operands if o is not None]
    arrays = [np.asarray(o[0] if isinstance(o, tuple) else o) for o in given]
    buffers: list[dict[int, Any]] = [{}]
    rows = []
    for k, (operand, array) in enumerate(zip(given, arrays, strict=True)):
        if isinstance(operand, tuple):
            buffers.append({0: array.tobytes()})
        at = len(buffers) - 1 if isinstance(operand, tuple) else 0
        rows.append(tensor(array.shape, TYPES[array.dtype.name], at, f"x{k}"))
    places = iter(range(len(given)))
    ins = [-1 if o is None else next(places) for o in operands]
    outs = list(range(len(rows), len(rows) + len(results)))
    rows += [tensor(np.shape(r), TYPES[np.asarray(r).dtype.name], 0, f"y{k}") for k, r in enumerate(results)]
    step: dict[int, Any] = {0: ("I", 0), 1: ins, 2: outs}
    if options is not None:
        step |= {3: ("B", 1), 4: options}
    inputs = [k for k, o in enumerate(given) if not isinstance(o, tuple)]
    graph = {0: rows, 1: inputs, 2: outs, 3: [step], 4: "main"}
    code = NUMBERS[op]
    known = [{0: ("b", min(code, 127)), 3: ("i", code)}]
    return whole({0: ("I", 3), 1: known, 2: [graph], 4: buffers})


def run(path: Path, op: str, operands: list[Operand], options: Any, results: list[Any]) -> list[Any]:
    path.write_bytes(file(op, operands, options, results))
    given = [o for o in operands if o is not None]
    feeds = {f"x{k}": o for k, o in enumerate(given) if not isinstance(o, tuple)}
    return [np.asarray(v) for v in load(convert(path), target="reference").run(feeds).values()]


X, CUBE, IMAGE = f(3, 4), f(2, 3, 4), f(2, 5, 6, 3)
TRUTH = X > 0
ROWS = np.array([True, False, True])
SMALL, SHIFT = f(5, 4), f(5)
FULL = X @ SMALL.T
PLACES = np.array([[1, 0], [3, 3], [0, 2]], np.int32)


def l2(x: Any, size: Any, strides: Any) -> Any:
    h, w = ((x.shape[a + 1] - size[a]) // strides[a] + 1 for a in range(2))
    out = np.zeros((x.shape[0], h, w, x.shape[3]), np.float32)
    for i, j in itertools.product(range(h), range(w)):
        part = x[:, i * strides[0] : i * strides[0] + size[0], j * strides[1] : j * strides[1] + size[1]]
        out[:, i, j] = np.sqrt((part**2).mean((1, 2)))
    return out


def fake(x: Any, low: float, high: float, bits: int, narrow: bool = False) -> Any:
    steps = 2**bits - 1 - narrow
    scale = (high - low) / steps
    first = round(low / scale) * scale
    return (np.round(np.clip(x, first, first + steps * scale) / scale) * scale).astype(np.float32)


def turned(x: Any, w: Any, strides: Any, out: Any, pads: Any) -> Any:
    """A transposed convolution by loops: (filters, height, width, channels)."""
    full = np.zeros((x.shape[0], 40, 40, w.shape[0]))
    for i, j, a, b in itertools.product(
        range(x.shape[1]), range(x.shape[2]), range(w.shape[1]), range(w.shape[2])
    ):
        full[:, i * strides[0] + a, j * strides[1] + b] += x[:, i, j] @ w[:, a, b].T
    return full[:, pads[0] : pads[0] + out[0], pads[1] : pads[1] + out[1]].astype(np.float32)


def lstm(x: Any, w: Any, u: Any, b: Any) -> Any:
    """Weights in the order input, forget, cell, output."""

    def soft(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    h = c = np.zeros((x.shape[0], u[0].shape[0]))
    out = []
    for t in range(x.shape[1]):
        i, g, z, o = (x[:, t] @ w[k].T + h @ u[k].T + b[k] for k in range(4))
        c = soft(g) * c + soft(i) * np.tanh(z)
        h = soft(o) * np.tanh(c)
        out.append(h)
    return np.stack(out, 1).astype(np.float32)


FILTERS = f(2, 3, 2, 3)
CASES: dict[str, list[tuple[list[Operand], dict[int, Any] | None, Any]]] = {
    "SQUARED_DIFFERENCE": [([X, X[::-1].copy()], None, (X - X[::-1]) ** 2)],
    "SQUARE": [([X], None, X * X)],
    "ADD_N": [([X, X + 1, X], None, 3 * X + 1)],
    "NOT_EQUAL": [([X, np.where(TRUTH, X, np.float32(0))], None, ~TRUTH)],
    "SELECT": [
        ([TRUTH, X, -X], None, np.where(TRUTH, X, -X)),
        ([ROWS, X, -X], None, np.where(ROWS[:, None], X, -X)),
    ],
    "SELECT_V2": [([TRUTH[:1], X, -X], None, np.where(TRUTH[:1], X, -X))],
    "LEAKY_RELU": [([X], {0: ("f", 0.3)}, np.where(X > 0, X, np.float32(0.3) * X))],
    "CAST": [([X], None, X.astype(np.int32)), ([i32(1, 0, -2)], None, np.array([True, False, True]))],
    "FAKE_QUANT": [
        ([X], {0: ("f", -1.0), 1: ("f", 1.5), 2: ("i", 4)}, fake(X, -1, 1.5, 4)),
        ([X], {0: ("f", -1.0), 1: ("f", 1.0), 2: ("i", 3), 3: ("?", True)}, fake(X, -1, 1, 3, True)),
    ],
    "REDUCE_ANY": [
        ([TRUTH, (i32(1),)], None, TRUTH.any(1)),
        ([TRUTH, (i32(0),)], {0: ("?", True)}, TRUTH.any(0, keepdims=True)),
    ],
    "REDUCE_ALL": [([TRUTH, (i32(1),)], None, TRUTH.all(1))],
    "REDUCE_MIN": [([CUBE, (i32(0, -1),)], None, CUBE.min((0, 2)))],
    "REDUCE_PROD": [([X, (i32(1),)], {0: ("?", True)}, X.prod(1, keepdims=True))],
    "ARG_MIN": [([X, (np.array([1], np.int32),)], None, X.argmin(1).astype(np.int32))],
    "RESHAPE": [
        ([X, (i32(2, -1),)], None, X.reshape(2, 6)),
        ([X], {0: [6, 2]}, X.reshape(6, 2)),
        ([X], None, X.reshape(12)),
        ([X, (i32(4, 3),)], {0: [6, 2]}, X.reshape(4, 3)),
    ],
    "SQUEEZE": [([X[None, :, None]], {0: [2]}, X[None]), ([X[None, :, None]], None, X)],
    "EXPAND_DIMS": [([X, (i32(1)[0],)], None, X[:, None])],
    "CONCATENATION": [
        ([X, X + 1], {0: ("i", 1)}, np.concatenate([X, X + 1], 1)),
        ([X, X + 1], {0: ("i", -2), 1: ("b", 1)}, np.maximum(np.concatenate([X, X + 1]), 0)),
    ],
    "SPLIT": [([(i32(1)[0],), X], {0: ("i", 2)}, [X[:, :2], X[:, 2:]])],
    "SPLIT_V": [
        ([X, (i32(1, 3),), (i32(1)[0],)], {0: ("i", 2)}, [X[:, :1], X[:, 1:]]),
        ([X, (i32(1, -1, 1),), (i32(1)[0],)], {0: ("i", 3)}, [X[:, :1], X[:, 1:3], X[:, 3:]]),
    ],
    "PACK": [([X, -X], {0: ("i", 2), 1: ("i", 1)}, np.stack([X, -X], 1))],
    "UNPACK": [([X], {0: ("i", 3), 1: ("i", 0)}, [X[0], X[1], X[2]])],
    "STRIDED_SLICE": [
        ([CUBE, (i32(0, 2, 3),), (i32(2, 0, 0),), (i32(1, -1, -2),)], None, CUBE[0:2, 2:0:-1, 3:0:-2]),
        ([CUBE, (i32(1, 1, 0),), (i32(2, 3, 4),), (i32(1, 1, 1),)], {4: ("i", 1)}, CUBE[1, 1:]),
        (
            [CUBE, (i32(1, 1, 2),), (i32(2, 2, 3),), (i32(1, 1, 1),)],
            {0: ("i", 2), 1: ("i", 4)},
            CUBE[1:2, :2, 2:],
        ),
    ],
    "GATHER": [
        ([X, (i32(3, 0, 0),)], {0: ("i", 1)}, X[:, [3, 0, 0]]),
        ([X, (PLACES,)], {0: ("i", 1), 1: ("i", 1)}, np.take_along_axis(X, PLACES.astype(np.int64), 1)),
    ],
    "EMBEDDING_LOOKUP": [
        ([(i32(2, 0, 2, 1),), X], None, X[[2, 0, 2, 1]]),
        ([i32(1, 1), (X,)], None, X[[1, 1]]),
    ],
    "GATHER_ND": [([X, (i32([0, 1], [2, 3]),)], None, X[[0, 2], [1, 3]])],
    "SCATTER_ND": [
        ([(i32([1], [3], [1]),), X, (i32(4, 4),)], None, np.stack([X[0] * 0, X[0] + X[2], X[0] * 0, X[1]]))
    ],
    "PAD": [([X, (i32([1, 0], [2, 3]),)], None, np.pad(X, ((1, 0), (2, 3))))],
    "PADV2": [
        ([X, (i32([1, 0], [2, 3]),), (np.float32(7),)], None, np.pad(X, ((1, 0), (2, 3)), constant_values=7))
    ],
    "MIRROR_PAD": [
        ([X, (i32([1, 2], [3, 0]),)], {0: ("b", 0)}, np.pad(X, ((1, 2), (3, 0)), "reflect")),
        ([X, (i32([1, 3], [4, 0]),)], {0: ("b", 1)}, np.pad(X, ((1, 3), (4, 0)), "symmetric")),
    ],
    "SHAPE": [([CUBE], None, i32(2, 3, 4))],
    "RANK": [([CUBE], None, np.int32(3))],
    "ZEROS_LIKE": [([X], None, X * 0)],
    "ONE_HOT": [
        (
            [(i32(0, 2, -1),), (i32(3)[0],), (np.float32(4),), (np.float32(-1),)],
            {0: ("i", -1)},
            np.where(i32(0, 2, -1)[:, None] == np.arange(3), 4, -1).astype(np.float32),
        )
    ],
    "TOPK_V2": [
        ([X, (i32(2)[0],)], None, [-np.sort(-X, 1)[:, :2], np.argsort(-X, 1)[:, :2].astype(np.int32)])
    ],
    "SOFTMAX": [
        ([X], {0: ("f", 2.5)}, np.exp(2.5 * X) / np.exp(2.5 * X).sum(1, keepdims=True)),
        ([X], {0: ("f", 1.0)}, np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    ],
    "L2_POOL_2D": [
        (
            [IMAGE],
            {0: ("b", 1), 1: ("i", 2), 2: ("i", 1), 3: ("i", 3), 4: ("i", 2)},
            l2(IMAGE, (2, 3), (1, 2)),
        )
    ],
    "PRELU": [
        (
            [X, (np.array([0.5, -1, 2, 0.0], np.float32),)],
            None,
            np.where(X > 0, X, X * np.array([0.5, -1, 2, 0.0], np.float32)),
        )
    ],
    "FULLY_CONNECTED": [
        ([X, (SMALL,)], None, FULL),
        ([X, (SMALL,), (SHIFT,)], {0: ("b", 1)}, np.maximum(FULL + SHIFT, 0)),
        ([CUBE, (SMALL,), (SHIFT,)], {2: ("?", True)}, CUBE @ SMALL.T + SHIFT),
        ([CUBE, (SMALL,), None], None, (CUBE @ SMALL.T).reshape(6, 5)),
    ],
    "BATCH_MATMUL": [
        ([CUBE, CUBE], {1: ("?", True)}, CUBE @ CUBE.transpose(0, 2, 1)),
        ([CUBE, CUBE], {0: ("?", True)}, CUBE.transpose(0, 2, 1) @ CUBE),
    ],
    "TRANSPOSE_CONV": [
        ([(i32(2, 9, 12, 2),), (FILTERS,), f(2, 4, 6, 3)], {0: ("b", 1), 1: ("i", 2), 2: ("i", 2)}, None),
        ([(i32(2, 8, 12, 2),), (FILTERS,), f(2, 4, 6, 3)], {0: ("b", 0), 1: ("i", 2), 2: ("i", 2)}, None),
        ([(i32(2, 11, 13, 2),), (FILTERS,), f(2, 4, 6, 3)], {0: ("b", 1), 1: ("i", 2), 2: ("i", 2)}, None),
    ],
}


@pytest.mark.parametrize(("op", "place"), [(op, k) for op, cases in CASES.items() for k in range(len(cases))])
def test_operators_beside_numpy(op: str, place: int, tmp_path: Path) -> None:
    operands, options, want = CASES[op][place]
    if op == "TRANSPOSE_CONV":
        out = operands[0][0][1:3]
        over = [(n - 1) * 2 + k - d for n, k, d in zip((4, 6), (3, 2), out, strict=True)]
        want = turned(operands[2], FILTERS, (2, 2), out, [max(int(o), 0) // 2 for o in over])
    wanted = [np.asarray(w) for w in (want if isinstance(want, list) else [want])]
    for got, value in zip(run(tmp_path / "m.tflite", op, operands, options, wanted), wanted, strict=True):
        assert got.shape == value.shape and got.dtype == value.dtype
        np.testing.assert_allclose(got, value, rtol=2e-5, atol=2e-6)


def test_halves_are_widened(tmp_path: Path) -> None:
    x = f(3, 4).astype(np.float16)
    for operand in (x, (x,)):
        (found,) = run(tmp_path / "m.tflite", "DEQUANTIZE", [operand], None, [x.astype(np.float32)])
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, x.astype(np.float32))


def gates(units: int, features: int, seed: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return tuple(  # type: ignore[return-value]
        [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]
        for shape in ((units, features), (units, units), (units,))
    )


def lstm_operands(x: Any, w: Any, u: Any, b: Any) -> list[Operand]:
    units = len(b[0])
    state = np.zeros((x.shape[0], units), np.float32)
    ins: list[Operand] = [x, *((each,) for each in w), *((each,) for each in u), None, None, None]
    return [*ins, *((each,) for each in b), None, None, (state,), (state,), None, None, None, None]


def test_lstms_of_a_sequence(tmp_path: Path) -> None:
    x, (w, u, b) = f(2, 5, 3), gates(4, 3)
    want = lstm(x, w, u, b)
    operands = lstm_operands(x, w, u, b)
    (found,) = run(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, {0: ("b", 4)}, [want])
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-6)


REFUSED: dict[str, tuple[str, list[Operand], Any, str]] = {
    "range": ("FAKE_QUANT", [X], {0: ("f", 1.0), 1: ("f", 1.0), 2: ("i", 8)}, "FAKE_QUANT from 1.0 to 1.0"),
    "offsets": (
        "STRIDED_SLICE",
        [X, (i32(0, 0),), (i32(1, 1),), (i32(1, 1),)],
        {5: ("?", True)},
        "whose ends are offsets",
    ),
    "shuffled": ("FULLY_CONNECTED", [X, (SMALL,)], {1: ("b", 1)}, "with shuffled weights"),
    "batch": (
        "GATHER",
        [CUBE, (np.zeros((2, 1), np.int32),)],
        {0: ("i", 2), 1: ("i", 1)},
        "lies behind its batch",
    ),
    "sigmoid": (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        lstm_operands(f(1, 2, 3), *gates(4, 3)),
        {0: ("b", 1)},
        "than tanh",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_done_is_named(name: str, tmp_path: Path) -> None:
    op, operands, options, text = REFUSED[name]
    with pytest.raises(FileError, match=text):
        run(tmp_path / "m.tflite", op, operands, options, [X])


@pytest.mark.parametrize("place", [9, 10, 11, 16, 17, 20, 21, 22, 23])
def test_lstms_of_other_kinds(place: int, tmp_path: Path) -> None:
    operands = lstm_operands(f(1, 2, 3), *gates(4, 3))
    operands[place] = (np.ones(4, np.float32),)
    with pytest.raises(FileError, match="peepholes, projection, norms or coupled gates"):
        run(tmp_path / "m.tflite", "UNIDIRECTIONAL_SEQUENCE_LSTM", operands, {0: ("b", 4)}, [X])
