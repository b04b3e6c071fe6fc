"""GELU, hard-swish, layer and RMS norm as exporters write them: one node in the engine and in `optimize`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.inference import optimize
from trilobite.inference.recognise import recognised

rng = np.random.default_rng(8)
D = 12
X = (rng.standard_normal((3, 5, D)) * 3).astype(np.float32)
W, BIAS = (rng.standard_normal(D).astype(np.float32) for _ in range(2))
ERF = np.array([math.erf(v) for v in (X / math.sqrt(2)).ravel()]).reshape(X.shape)
GELU = 0.5 * X * (1 + ERF)
TANH = 0.5 * X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X.astype(np.float64) ** 3)))
HARD = X * np.clip(X + 3, 0, 6) / 6
NORMAL = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
ROOT = X / np.sqrt((X.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)


def f(value: float) -> np.ndarray:
    return np.array(value, np.float32)


NUMBERS = {
    "half": f(0.5), "one": f(1), "r2": f(math.sqrt(2)), "i2": f(math.sqrt(0.5)), "c": f(0.044715),
    "two": f(2), "k": f(math.sqrt(2 / math.pi)), "three": f(3), "six": f(6), "zero": f(0), "eps": f(1e-5),
    "eps6": f(1e-6), "axis": np.array([-1]), "first": np.array([0]), "w": W, "b": BIAS, "inverse": f(-0.5),
}  # fmt: skip


def chain(text: str) -> list[Any]:
    """Lines of: operator operands > result."""
    found = []
    for line in text.split(";"):
        left, result = line.split(">")
        op, *operands = left.split()
        attributes = {"alpha": 1 / 6} if op == "HardSigmoid" else {}
        found.append(node(op, " ".join(operands), result.strip(), **attributes))
    return found


SQUARES = "ReduceMean x axis > u; Sub x u > d; Pow d two > q; ReduceMean q axis > v; Add v eps > e"
RMS = "Pow x two > q; ReduceMean q axis > v; Add v eps6 > e; Sqrt e > s"
FORMS: dict[str, tuple[str, str, np.ndarray]] = {
    "torch": ("Div x r2 > a; Erf a > e; Add e one > o; Mul x o > m; Mul m half > y", "Gelu", GELU),
    "half first": ("Mul x half > h; Mul x i2 > a; Erf a > e; Add one e > o; Mul h o > y", "Gelu", GELU),
    "half inside": ("Mul i2 x > a; Erf a > e; Add e one > o; Mul o half > m; Mul m x > y", "Gelu", GELU),
    "divided by two": ("Div x r2 > a; Erf a > e; Add e one > o; Mul x o > m; Div m two > y", "Gelu", GELU),
    "tanh by Pow": (
        "Pow x three > p; Mul c p > q; Add x q > i; Mul i k > j; Tanh j > t; Add t one > o; Mul x half > h; "
        "Mul h o > y", "Gelu", TANH,
    ),
    "tanh by products": (
        "Mul x x > p; Mul p x > r; Mul c r > q; Add x q > i; Mul i k > j; Tanh j > t; Add t one > o; "
        "Mul x o > m; Mul m half > y", "Gelu", TANH,
    ),
    "tanh, factored": (
        "Mul x x > p; Mul p c > q; Add q one > i; Mul x k > j; Mul j i > l; Tanh l > t; Add one t > o; "
        "Mul o half > m; Mul x m > y", "Gelu", TANH,
    ),
    "hard sigmoid": ("HardSigmoid x > g; Mul x g > y", "HardSwish", HARD),
    "clip": ("Add x three > a; Clip a zero six > g; Mul x g > m; Div m six > y", "HardSwish", HARD),
    "layer norm": (
        f"{SQUARES}; Sqrt e > s; Div d s > n; Mul n w > m; Add m b > y", "LayerNormalization",
        NORMAL * W + BIAS,
    ),
    "layer norm, rsqrt": (
        f"{SQUARES}; Sqrt e > s; Reciprocal s > i; Mul d i > n; Mul w n > m; Add b m > y",
        "LayerNormalization", NORMAL * W + BIAS,
    ),
    "layer norm, no bias": (
        f"{SQUARES}; Pow e inverse > i; Mul d i > n; Mul n w > y", "LayerNormalization", NORMAL * W,
    ),
    "layer norm, twice": (
        "ReduceMean x axis > u; Sub x u > d; Sub x u > f; Mul d d > q; ReduceMean q axis > v; Add eps v > e; "
        "Sqrt e > s; Div f s > n; Mul n w > m; Add m b > y", "LayerNormalization", NORMAL * W + BIAS,
    ),
    "rms norm": (f"{RMS}; Reciprocal s > i; Mul x i > n; Mul w n > y", "RMSNormalization", ROOT * W),
    "rms norm, one over": (f"{RMS}; Div one s > i; Mul x i > n; Mul n w > y", "RMSNormalization", ROOT * W),
    "rms norm, divided": (f"{RMS}; Div x s > n; Mul n w > y", "RMSNormalization", ROOT * W),
}  # fmt: skip


def written(text: str, outputs: list[str] | None = None, opset: int = 23) -> Any:
    nodes = chain(text)
    used = {n for made in nodes for n in made.input}
    constants = {n: v for n, v in NUMBERS.items() if n in used}
    made = model(nodes, {"x": (np.float32, [3, 5, D])}, outputs or ["y"], constants, opset=opset)
    for output in made.graph.output:
        output.type.CopyFrom(made.graph.input[0].type)
    return made


@pytest.mark.parametrize("kind", FORMS)
def test_one_node_that_gives_the_same(kind: str) -> None:
    text, op, want = FORMS[kind]
    proto = written(text)
    graph, counts = recognised(tb.inference.read(proto).graph)
    assert [n.op for n in graph.nodes] == [op] and counts == {op: 1}
    for target in ("cpu", "reference"):
        session = tb.inference.load(proto, target=target)
        assert f"written-out form: 1 {op}" in session.explain()
        np.testing.assert_allclose(session.run({"x": X})["y"], want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", FORMS)
def test_optimize_writes_it_as_onnx(kind: str) -> None:
    onnx = pytest.importorskip("onnx")
    text, op, want = FORMS[kind]
    found = optimize(written(text))
    onnx.checker.check_model(found.model, full_check=True)
    assert [n.op_type for n in found.model.graph.node] == [op]
    assert found.counts["groups made one node"] == 1
    np.testing.assert_allclose(tb.inference.load(found.model).run({"x": X})["y"], want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("kind", "opset"), [("torch", 19), ("rms norm", 22)])
def test_optimize_leaves_what_the_operator_set_has_no_name_for(kind: str, opset: int) -> None:
    proto = written(FORMS[kind][0], opset=opset)
    found = optimize(proto)
    assert found.counts["groups made one node"] == 0 and found.after == len(proto.graph.node)


OTHERS = {
    "another number": "Div x two > a; Erf a > e; Add e one > o; Mul x o > m; Mul m half > y",
    "another factor": "Div x r2 > a; Erf a > e; Add e one > o; Mul x o > m; Mul m two > y",
    "of another value": "Mul x w > z; Div z r2 > a; Erf a > e; Add e one > o; Mul x o > m; Mul m half > y",
    "no epsilon": f"{SQUARES.replace('eps', 'zero')}; Sqrt e > s; Div d s > n; Mul n w > y",
    "another axis": f"{SQUARES.replace('axis', 'first')}; Sqrt e > s; Div d s > n; Mul n w > y",
    "another power": f"{SQUARES.replace('two', 'three')}; Sqrt e > s; Div d s > n; Mul n w > y",
    "a cube that is not": (
        "Pow x two > p; Mul c p > q; Add x q > i; Mul i k > j; Tanh j > t; Add t one > o; Mul x half > h; "
        "Mul h o > y"
    ),
    "a gate that is not": "Add x three > a; Clip a zero three > g; Mul x g > m; Div m six > y",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_only_looks_like_it_stays(kind: str) -> None:
    proto = written(OTHERS[kind])
    graph, counts = recognised(tb.inference.read(proto).graph)
    assert not counts and len(graph.nodes) == len(proto.graph.node)


@pytest.mark.parametrize(("kind", "value"), [("torch", "o"), ("layer norm", "n"), ("rms norm", "i")])
def test_values_that_somebody_reads_stay(kind: str, value: str) -> None:
    graph, counts = recognised(tb.inference.read(written(FORMS[kind][0], ["y", value])).graph)
    assert not counts and value in {o for n in graph.nodes for o in n.outputs}


def test_a_centred_value_that_somebody_reads_is_normalised_by_itself() -> None:
    proto = written(FORMS["layer norm"][0], ["y", "d"])
    graph, counts = recognised(tb.inference.read(proto).graph)
    assert counts == {"RMSNormalization": 1} and [n.op for n in graph.nodes][-1] == "Add"
    found = tb.inference.load(proto).run({"x": X})
    np.testing.assert_allclose(found["y"], NORMAL * W + BIAS, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(found["d"], X - X.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
