"""Each operation of frozen graphs beside NumPy, in the forms that no kept graph has: operands that are known,
channels first, explicit padding, open sizes, branches that are cut away.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inference.formats.graph_files import constant, graph, number, placeholder
from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.tensorflow import convert
from trilobite.inference.formats.tensorflow.rules import RULES

pytest.importorskip("onnx")
RNG = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def one(*values: Any) -> Any:
    return np.array(values[0] if len(values) == 1 else values)


X, Y, CUBE, IMAGE = f(3, 4), f(3, 4), f(2, 3, 4), f(2, 5, 6, 4)  # channels last
WHOLE, OTHER = RNG.integers(-9, 9, (3, 4)).astype(np.int32), np.array([3, -2, 5, -4], np.int32)
TRUTH = X > 0
KERNEL, DEEP = f(3, 2, 4, 6), f(3, 2, 4, 2)


def conv(
    x: Any,
    w: Any,
    strides: Any = (1, 1),
    dilation: Any = (1, 1),
    pads: Any = ((0, 0), (0, 0)),
    deep: bool = False,
) -> Any:
    """By loops, channels last."""
    x = np.pad(x.astype(np.float64), ((0, 0), *pads, (0, 0)))
    h, v = ((x.shape[a + 1] - (w.shape[a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in range(2))
    out = np.zeros((x.shape[0], h, v, w.shape[2] * w.shape[3] if deep else w.shape[3]))
    for i, j, a, b in itertools.product(range(h), range(v), range(w.shape[0]), range(w.shape[1])):
        row = x[:, i * strides[0] + a * dilation[0], j * strides[1] + b * dilation[1]]
        if deep:
            out[:, i, j] += (row[:, :, None] * w[a, b][None]).reshape(len(x), -1)
        else:
            out[:, i, j] += row @ w[a, b]
    return out


def first(x: Any) -> Any:
    return np.moveaxis(x, -1, 1)


def pooled(x: Any, size: Any, strides: Any, mean: bool) -> Any:
    h, v = ((x.shape[a + 1] - size[a]) // strides[a] + 1 for a in range(2))
    out = np.zeros((x.shape[0], h, v, x.shape[3]))
    for i, j in itertools.product(range(h), range(v)):
        part = x[:, i * strides[0] : i * strides[0] + size[0], j * strides[1] : j * strides[1] + size[1]]
        out[:, i, j] = part.mean((1, 2)) if mean else part.max((1, 2))
    return out


def blocks(x: Any, block: int) -> Any:
    """Space to depth."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, h // block, w // block, block * block * c)


def hot(places: Any, depth: int, on: float, off: float, axis: int = -1) -> Any:
    out = np.where(places[..., None] == np.arange(depth), on, off)
    return np.moveaxis(out, -1, axis)


MEAN, VAR, SCALE, SHIFT = f(4), np.abs(f(4)) + 1, f(4), f(4)
NORMED = (IMAGE - MEAN) / np.sqrt(VAR + 0.01) * SCALE + SHIFT
CROP = np.pad(IMAGE, ((0, 0), (1, 2), (0, 3), (0, 0)))
# operation: [(operands; those in a tuple are constants, attributes, result)]; results in a list are several
Operand = Any
CASES: dict[str, list[tuple[list[Operand], dict[str, Any], Any]]] = {
    "ClipByValue": [([X, (np.float32(-0.5),), (np.float32(0.25),)], {}, np.clip(X, -0.5, 0.25))],
    "Rank": [([X], {}, np.int32(2)), ([CUBE], {}, np.int32(3))],
    "Size": [([CUBE], {}, np.int32(24)), ([X], {"out_type": np.int64}, np.int64(12))],
    "Shape": [([CUBE], {}, i32(2, 3, 4)), ([X], {"out_type": np.int64}, np.array([3, 4]))],
    "Any": [
        ([TRUTH, (i32(1),)], {}, TRUTH.any(1)),
        ([TRUTH, (i32(0),)], {"keep_dims": True}, TRUTH.any(0, keepdims=True)),
    ],
    "All": [([TRUTH, (i32(1),)], {}, TRUTH.all(1)), ([TRUTH | True, (i32(0, 1),)], {}, np.bool_(True))],
    "Sum": [
        ([X, (i32(-1),)], {}, X.sum(1)),
        ([CUBE, (i32(0, 2),)], {"keep_dims": True}, CUBE.sum((0, 2), keepdims=True)),
    ],
    "Prod": [([X, (i32(0),)], {}, X.prod(0))],
    "Min": [([X, (i32(1),)], {}, X.min(1))],
    "ArgMin": [
        ([X, (i32(1),)], {}, X.argmin(1)),
        ([X, (i32(0),)], {"output_type": np.int32}, X.argmin(0).astype(np.int32)),
    ],
    "FloorDiv": [
        ([WHOLE, OTHER], {"T": np.int32}, WHOLE // OTHER),
        ([X, Y], {"T": np.float32}, np.floor(X / Y)),
    ],
    "FloorMod": [
        ([WHOLE, OTHER], {"T": np.int32}, WHOLE % OTHER),
        ([X, Y], {"T": np.float32}, X - np.floor(X / Y) * Y),
    ],
    "NotEqual": [([WHOLE, OTHER], {}, WHOLE != OTHER)],
    "AddN": [([X, Y, X], {}, X + Y + X), ([X], {}, X)],
    "SquaredDifference": [([X, Y], {}, (X - Y) ** 2)],
    "Rsqrt": [([np.abs(X)], {}, 1 / np.sqrt(np.abs(X)))],
    "Square": [([X], {}, X * X)],
    "LeakyRelu": [([X], {}, np.where(X > 0, X, 0.2 * X)), ([X], {"alpha": 0.5}, np.where(X > 0, X, 0.5 * X))],
    "Cast": [
        ([X], {"DstT": np.int32}, X.astype(np.int32)),
        ([WHOLE], {"DstT": np.float32}, WHOLE.astype(np.float32)),
    ],
    "Select": [([TRUTH, X, Y], {}, np.where(TRUTH, X, Y))],
    "ZerosLike": [([X], {"T": np.float32}, X * 0)],
    "OnesLike": [([WHOLE], {"T": np.int32}, WHOLE * 0 + 1)],
    "Reshape": [
        ([X, (i32(2, -1),)], {}, X.reshape(2, 6)),
        ([(X,), (i32(4, 3),)], {}, X.reshape(4, 3)),
        ([f(0, 4), (i32(2, 0),)], {}, np.zeros((2, 0), np.float32)),
    ],
    "Squeeze": [
        ([X[None, :, None]], {"squeeze_dims": [0, 2]}, X),
        ([X[:, None]], {}, X),
        ([(X[None],)], {"squeeze_dims": [0]}, X),
        ([(X[None],)], {}, X),
    ],
    "ExpandDims": [
        ([X, (one(np.int32(1)),)], {}, X[:, None]),
        ([(X,), (one(np.int32(-1)),)], {}, X[..., None]),
    ],
    "Transpose": [
        ([CUBE, (i32(2, 0, 1),)], {}, CUBE.transpose(2, 0, 1)),
        ([(CUBE,), (i32(1, 0, 2),)], {}, CUBE.transpose(1, 0, 2)),
    ],
    "Pack": [
        ([X, Y], {"axis": 1}, np.stack([X, Y], 1)),
        ([(X,), (Y,)], {"axis": 2}, np.stack([X, Y], 2)),
        ([X, Y], {}, np.stack([X, Y])),
    ],
    "Unpack": [([X], {"axis": 1, "num": 4}, [X[:, k] for k in range(4)])],
    "Concat": [([(np.int32(1),), X, Y], {}, np.concatenate([X, Y], 1))],
    "ConcatV2": [
        ([X, Y, (np.int32(-1),)], {}, np.concatenate([X, Y], 1)),
        ([(X,), (Y,), (np.int32(0),)], {}, np.concatenate([X, Y])),
    ],
    "Split": [([(np.int32(1),), X], {"num_split": 2}, [X[:, :2], X[:, 2:]])],
    "SplitV": [([X, (i32(1, 3),), (np.int32(1),)], {}, [X[:, :1], X[:, 1:]])],
    "Gather": [([X, WHOLE[:2] % 3], {}, X[WHOLE[:2] % 3])],
    "GatherV2": [
        ([X, (i32(3, 0, 0),), (np.int32(1),)], {}, X[:, [3, 0, 0]]),
        (
            [X, (np.array([[1, 0], [3, 3], [0, 2]], np.int32),), (np.int32(1),)],
            {"batch_dims": 1},
            np.take_along_axis(X, np.array([[1, 0], [3, 3], [0, 2]]), 1),
        ),
    ],
    "GatherNd": [([X, (np.array([[0, 1], [2, 3]], np.int32),)], {}, X[[0, 2], [1, 3]])],
    "Pad": [([X, (np.array([[1, 0], [2, 3]], np.int32),)], {}, np.pad(X, ((1, 0), (2, 3))))],
    "PadV2": [
        (
            [X, (np.array([[1, 0], [2, 3]], np.int32),), (np.float32(7),)],
            {},
            np.pad(X, ((1, 0), (2, 3)), constant_values=7),
        )
    ],
    "MirrorPad": [
        (
            [X, (np.array([[1, 2], [3, 0]], np.int32),)],
            {"mode": "REFLECT"},
            np.pad(X, ((1, 2), (3, 0)), "reflect"),
        ),
        (
            [X, (np.array([[1, 3], [4, 0]], np.int32),)],
            {"mode": "SYMMETRIC"},
            np.pad(X, ((1, 3), (4, 0)), "symmetric"),
        ),
    ],
    "Tile": [([X, (i32(2, 3),)], {}, np.tile(X, (2, 3)))],
    "Fill": [([(i32(2, 3),), (np.float32(5),)], {}, np.full((2, 3), 5, np.float32))],
    "BroadcastTo": [([X[:1], (i32(2, 3, 4),)], {}, np.broadcast_to(X[:1], (2, 3, 4)))],
    "Range": [([(np.int32(2),), (np.int32(11),), (np.int32(3),)], {}, np.arange(2, 11, 3, np.int32))],
    "OneHot": [
        (
            [i32(0, 2, -1, 5), (np.int32(3),), (np.float32(4),), (np.float32(-1),)],
            {},
            hot(i32(0, 2, -1, 5), 3, 4, -1).astype(np.float32),
        ),
        (
            [i32(0, 2, 1), (np.int32(4),), (np.float32(1),), (np.float32(0),)],
            {"axis": 0},
            hot(i32(0, 2, 1), 4, 1, 0, 0).astype(np.float32),
        ),
    ],
    "TopKV2": [
        ([X, (np.int32(2),)], {}, [-np.sort(-X, 1)[:, :2], np.argsort(-X, 1)[:, :2].astype(np.int32)])
    ],
    "Cumsum": [
        ([X, (np.int32(1),)], {}, X.cumsum(1)),
        ([X, (np.int32(0),)], {"reverse": True}, X[::-1].cumsum(0)[::-1]),
        ([X, (np.int32(1),)], {"exclusive": True}, X.cumsum(1) - X),
    ],
    "ReverseV2": [([X, (i32(1, 0),)], {}, X[::-1, ::-1]), ([X, (np.zeros(0, np.int32),)], {}, X)],
    "MatMul": [
        ([X, Y], {"transpose_b": True}, X @ Y.T),
        ([X, Y], {"transpose_a": True}, X.T @ Y),
        ([X, Y.T.copy()], {}, X @ Y.T),
    ],
    "BatchMatMulV2": [
        ([CUBE, CUBE], {"adj_y": True}, CUBE @ CUBE.transpose(0, 2, 1)),
        ([CUBE, CUBE], {"adj_x": True}, CUBE.transpose(0, 2, 1) @ CUBE),
    ],
    "Slice": [
        ([X, (i32(1, 2),), (i32(2, -1),)], {}, X[1:3, 2:]),
        ([X, (i32(0, 1),), (i32(-1, 2),)], {}, X[:, 1:3]),
    ],
    "StridedSlice": [
        ([CUBE, (i32(0, 2, 3),), (i32(2, 0, 0),), (i32(1, -1, -2),)], {}, CUBE[0:2, 2:0:-1, 3:0:-2]),
        (
            [CUBE, (i32(0, 1),), (i32(1, 3),), (i32(1, 1),)],
            {"shrink_axis_mask": 1, "end_mask": 2},
            CUBE[0, 1:],
        ),
        ([CUBE, (i32(0, 1),), (i32(0, 3),), (i32(1, 1),)], {"ellipsis_mask": 1}, CUBE[..., 1:3]),
        (
            [CUBE, (i32(0, 0, 1),), (i32(0, 2, 2),), (i32(1, 1, 1),)],
            {"new_axis_mask": 1},
            CUBE[None, 0:2, 1:2],
        ),
        ([CUBE, (i32(1, -2),), (i32(9, 9),), (i32(1, 1),)], {"begin_mask": 1}, CUBE[:9, -2:9]),
    ],
    "Conv2D": [
        ([IMAGE, (KERNEL,)], {"padding": "VALID", "strides": [1, 2, 1, 1]}, conv(IMAGE, KERNEL, (2, 1))),
        (
            [IMAGE, (KERNEL,)],
            {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 3, 0, 0]},
            conv(IMAGE, KERNEL, pads=((1, 2), (0, 3))),
        ),
        (
            [first(IMAGE), (KERNEL,)],
            {
                "data_format": "NCHW",
                "padding": "EXPLICIT",
                "strides": [1, 1, 2, 3],
                "explicit_paddings": [0, 0, 0, 0, 1, 2, 0, 3],
            },
            first(conv(IMAGE, KERNEL, (2, 3), pads=((1, 2), (0, 3)))),
        ),
        (
            [IMAGE, (KERNEL,)],
            {"padding": "VALID", "dilations": [1, 2, 3, 1]},
            conv(IMAGE, KERNEL, dilation=(2, 3)),
        ),
        (
            [IMAGE, (KERNEL,)],
            {"padding": "SAME", "strides": [1, 2, 2, 1]},
            conv(IMAGE, KERNEL, (2, 2), pads=((1, 1), (0, 0))),
        ),
    ],
    "DepthwiseConv2dNative": [
        (
            [IMAGE, (DEEP,)],
            {"padding": "VALID", "strides": [1, 2, 2, 1]},
            conv(IMAGE, DEEP, (2, 2), deep=True),
        ),
        (
            [first(IMAGE), (DEEP,)],
            {"padding": "VALID", "data_format": "NCHW"},
            first(conv(IMAGE, DEEP, deep=True)),
        ),
    ],
    "MaxPool": [
        (
            [IMAGE],
            {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "VALID"},
            pooled(IMAGE, (2, 3), (2, 1), False),
        ),
        (
            [first(IMAGE)],
            {"ksize": [1, 1, 3, 2], "strides": [1, 1, 1, 2], "padding": "VALID", "data_format": "NCHW"},
            first(pooled(IMAGE, (3, 2), (1, 2), False)),
        ),
    ],
    "AvgPool": [
        (
            [IMAGE],
            {"ksize": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "padding": "VALID"},
            pooled(IMAGE, (2, 3), (1, 2), True),
        )
    ],
    "BiasAdd": [
        ([IMAGE, (SHIFT,)], {}, IMAGE + SHIFT),
        ([first(IMAGE), (SHIFT,)], {"data_format": "NCHW"}, first(IMAGE + SHIFT)),
        ([X, (SHIFT,)], {"data_format": "NCHW"}, X + SHIFT),
    ],
    "FusedBatchNormV3": [
        ([IMAGE, (SCALE,), (SHIFT,), (MEAN,), (VAR,)], {"is_training": False, "epsilon": 0.01}, [NORMED]),
        (
            [first(IMAGE), (SCALE,), (SHIFT,), (MEAN,), (VAR,)],
            {"is_training": False, "epsilon": 0.01, "data_format": "NCHW"},
            [first(NORMED)],
        ),
    ],
    "LRN": [
        (
            [IMAGE],
            {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
            IMAGE
            / (2 + 0.5 * np.stack([(IMAGE[..., max(0, k - 1) : k + 2] ** 2).sum(-1) for k in range(4)], -1))
            ** 0.75,
        ),
        ([IMAGE], {}, IMAGE / np.sqrt(1 + (IMAGE**2).sum(-1, keepdims=True))),
    ],
    "SpaceToDepth": [([IMAGE[:, :4]], {"block_size": 2}, blocks(IMAGE[:, :4], 2))],
    "DepthToSpace": [([blocks(IMAGE[:, :4], 2)], {"block_size": 2}, IMAGE[:, :4])],
    "SpaceToBatchND": [
        (
            [IMAGE, (i32(2, 3),), (np.array([[1, 2], [0, 3]], np.int32),)],
            {},
            np.concatenate([CROP[:, a::2, b::3] for a in range(2) for b in range(3)]),
        ),
    ],
    "BatchToSpaceND": [
        (
            [
                np.concatenate([CROP[:, a::2, b::3] for a in range(2) for b in range(3)]),
                (i32(2, 3),),
                (np.array([[1, 2], [0, 3]], np.int32),),
            ],
            {},
            IMAGE,
        ),
    ],
}


def run(
    path: Path, op: str, operands: list[Operand], attributes: dict[str, Any], outputs: int, sizes: Any = None
) -> list[Any]:
    rows: Any = []
    feeds = {}
    for k, operand in enumerate(operands):
        if isinstance(operand, tuple):
            rows.append(constant(f"x{k}", operand[0]))
        else:
            rows.append(placeholder(f"x{k}", operand, sizes))
            feeds[f"x{k}"] = np.ascontiguousarray(operand)
    rows.append(("y", op, [f"x{k}" for k in range(len(operands))], attributes))
    path.write_bytes(graph(rows))
    names = ["y", *(f"y:{k}" for k in range(1, outputs))]
    return [np.asarray(v) for v in load(convert(path, names), target="reference").run(feeds).values()]


@pytest.mark.parametrize(("op", "place"), [(op, k) for op, cases in CASES.items() for k in range(len(cases))])
def test_operations_beside_numpy(op: str, place: int, tmp_path: Path) -> None:
    operands, attributes, want = CASES[op][place]
    wanted = want if isinstance(want, list) else [want]
    for got, value in zip(run(tmp_path / "m.pb", op, operands, attributes, len(wanted)), wanted, strict=True):
        value = np.asarray(value)
        assert got.shape == value.shape
        if value.dtype.kind == "f":
            np.testing.assert_allclose(got, value, rtol=3e-5, atol=3e-6)
        else:
            assert got.dtype == value.dtype and np.array_equal(got, value)


def test_most_operations_are_in_the_table() -> None:
    assert set(CASES) <= set(RULES) and len(CASES) >= 55


@pytest.mark.parametrize("chosen", [False, True])
def test_branches_that_a_constant_chooses(chosen: bool, tmp_path: Path) -> None:
    """What lies behind the other one is not converted, whatever it is."""
    rows: Any = [
        placeholder("x", X),
        constant("p", np.bool_(chosen)),
        ("s", "Switch", ["x", "p"], {}),
        ("no", "Neg" if not chosen else "Magic", ["s"], {}),
        ("yes", "Abs" if chosen else "Magic", ["s:1"], {}),
        ("m", "Merge", ["no", "yes"], {}),
        ("y", "Identity", ["m"], {}),
    ]
    (tmp_path / "m.pb").write_bytes(graph(rows))
    (found,) = load(convert(tmp_path / "m.pb"), target="reference").run({"x": X}).values()
    np.testing.assert_array_equal(np.asarray(found), np.abs(X) if chosen else -X)


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "text"),
    [
        ("Conv2D", [IMAGE, (KERNEL,)], {"data_format": "NHCW"}, "data format NHCW"),
        ("Conv2D", [IMAGE, (KERNEL,)], {"strides": [1, 2, 1]}, r"strides \[1, 2, 1\]"),
        ("FusedBatchNorm", [IMAGE, (SCALE,), (SHIFT,), (MEAN,), (VAR,)], {}, "FusedBatchNorm in training"),
        ("SplitV", [X, (i32(1, -1),), (np.int32(1),)], {}, "a size that is left open"),
        ("Split", [(np.int32(1),), X], {"num_split": 0}, "a split into 0 parts"),
        (
            "GatherV2",
            [CUBE, (np.zeros((2, 1), np.int32),), (np.int32(2),)],
            {"batch_dims": 1},
            "lies behind its batch",
        ),
        ("Cast", [X], {"DstT": number(6, 99)}, "99"),
        ("Reshape", [X], {}, "Reshape|input|operand"),
        ("Merge", [X, Y], {}, "results that a run chooses"),
    ],
)
def test_what_is_not_done_is_named(
    op: str, operands: Any, attributes: Any, text: str, tmp_path: Path
) -> None:
    with pytest.raises(FileError, match=text):
        run(tmp_path / "m.pb", op, operands, attributes, 1)


@pytest.mark.parametrize("op", ["Rank", "SpaceToBatchND", "BatchToSpaceND"])
def test_ranks_that_nobody_tells(op: str, tmp_path: Path) -> None:
    rows: Any = [("x", "Placeholder", (), {"dtype": np.float32})]
    more = [] if op == "Rank" else [i32(2, 2), np.zeros((2, 2), np.int32)]
    rows += [constant(f"c{k}", array) for k, array in enumerate(more)]
    rows.append(("y", op, ["x", *(f"c{k}" for k in range(len(more)))], {}))
    (tmp_path / "m.pb").write_bytes(graph(rows))
    with pytest.raises(FileError, match="unknown rank"):
        convert(tmp_path / "m.pb")


def test_open_sizes_are_told_by_a_run(tmp_path: Path) -> None:
    for op, operands, attributes, want in (
        ("Size", [CUBE], {}, np.int32(24)), ("Shape", [CUBE], {}, i32(2, 3, 4)),
        ("SpaceToBatchND", [IMAGE[:, :4], (i32(2, 2),), (np.zeros((2, 2), np.int32),)], {},
         np.concatenate([IMAGE[:, :4][:, a::2, b::2] for a in range(2) for b in range(2)])),
    ):  # fmt: skip
        sizes = (None,) * operands[0].ndim
        (found,) = run(tmp_path / "m.pb", op, operands, attributes, 1, sizes)
        np.testing.assert_array_equal(found, want)
