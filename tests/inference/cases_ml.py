"""Models of one operator of ai.onnx.ml each, with random numbers in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.inference.conftest import Model, model, node

rng = np.random.default_rng(9)
X = rng.standard_normal((17, 4)).astype(np.float32)


def floats(*shape: int) -> list[float]:
    return rng.standard_normal(shape).astype(np.float32).reshape(-1).tolist()


def trees(kind: str, targets: int, count: int = 3) -> dict[str, Any]:
    """Complete trees of depth 2 that split on random features and places."""
    out: dict[str, list[Any]] = {k: [] for k in ("treeids", "nodeids", "featureids", "values", "modes",
                                                  "truenodeids", "falsenodeids")}  # fmt: skip
    votes: dict[str, list[Any]] = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for t in range(count):
        for n in range(7):
            inner = n < 3
            mode = f"BRANCH_{rng.choice(['LEQ', 'LT', 'GT', 'GTE'])}" if inner else "LEAF"
            split = float(rng.standard_normal()) if inner else 0.0
            row = (t, n, int(rng.integers(4)), split, mode, (2 * n + 1) * inner, (2 * n + 2) * inner)
            for k, v in zip(out, row, strict=True):
                out[k].append(v)
            for target in range(0 if inner else targets):
                for k, v in zip(votes, (t, n, target, float(rng.random())), strict=True):
                    votes[k].append(v)
    return {**{f"nodes_{k}": v for k, v in out.items()}, **{f"{kind}_{k}": v for k, v in votes.items()}}


def svm(classes: int, kernel: str) -> dict[str, Any]:
    counts = [3, 2, 4][:classes]
    return {
        "kernel_type": kernel, "kernel_params": [0.4, 0.3, 2.0], "support_vectors": floats(sum(counts), 4),
        "coefficients": floats(classes - 1, sum(counts)), "rho": floats(classes * (classes - 1) // 2),
        "vectors_per_class": counts, "classlabels_ints": list(range(classes)),
    }  # fmt: skip


LINEAR = {"coefficients": floats(3, 4), "intercepts": floats(3), "classlabels_ints": [5, 6, 7]}
PAIRS = {"prob_a": floats(3), "prob_b": floats(3)}
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    **{
        f"linear {p}": ("LinearClassifier", 2, {**LINEAR, "post_transform": p})
        for p in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
    },
    "linear regressor": (
        "LinearRegressor",
        1,
        {"coefficients": floats(2, 4), "intercepts": floats(2), "targets": 2},
    ),
    **{
        f"trees {a}": (
            "TreeEnsembleRegressor",
            1,
            {**trees("target", 2), "n_targets": 2, "aggregate_function": a},
        )
        for a in ("SUM", "AVERAGE", "MIN", "MAX")
    },
    "trees base": ("TreeEnsembleRegressor", 1, {**trees("target", 1), "n_targets": 1, "base_values": [0.5]}),
    **{
        f"forest {p}": (
            "TreeEnsembleClassifier",
            2,
            {**trees("class", 3), "classlabels_int64s": [1, 2, 4], "post_transform": p},
        )
        for p in ("NONE", "SOFTMAX", "LOGISTIC")
    },
    "forest of two": (
        "TreeEnsembleClassifier",
        2,
        {**trees("class", 1), "classlabels_int64s": [0, 1], "post_transform": "LOGISTIC"},
    ),
    **{f"svm {k}": ("SVMClassifier", 2, svm(3, k)) for k in ("LINEAR", "RBF", "POLY", "SIGMOID")},
    "svm chances": ("SVMClassifier", 2, {**svm(3, "RBF"), **PAIRS}),
    "svm regressor": (
        "SVMRegressor",
        1,
        {
            "kernel_type": "RBF",
            "kernel_params": [0.5, 0.0, 3.0],
            "n_supports": 5,
            "support_vectors": floats(5, 4),
            "coefficients": floats(5),
            "rho": [0.2],
        },
    ),
    "scaler": ("Scaler", 1, {"offset": floats(4), "scale": floats(4)}),
    **{f"normalizer {k}": ("Normalizer", 1, {"norm": k}) for k in ("MAX", "L1", "L2")},
    "imputer": ("Imputer", 1, {"imputed_value_floats": floats(4), "replaced_value_float": float(X[3, 2])}),
    "binarizer": ("Binarizer", 1, {"threshold": 0.3}),
}
TWO = {"coefficients": floats(2, 4), "intercepts": floats(2), "classlabels_ints": [5, 9]}
ONE = {"coefficients": floats(4), "intercepts": floats(1), "classlabels_ints": [5, 9]}
FOREST = {**trees("class", 1), "classlabels_int64s": [5, 9]}
CHANCES = {"prob_a": [-0.7], "prob_b": [0.1]}
for how in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"):
    CASES |= {
        f"linear two {how}": ("LinearClassifier", 2, {**TWO, "post_transform": how}),
        f"svm chances {how}": ("SVMClassifier", 2, {**svm(3, "RBF"), **PAIRS, "post_transform": how}),
        f"svm chances two {how}": ("SVMClassifier", 2, {**svm(2, "RBF"), **CHANCES, "post_transform": how}),
    }
for how in (
    "NONE",
    "LOGISTIC",
):  # of one score, ONNX Runtime and ONNX's own evaluator transform the rest differently
    CASES |= {
        f"svm two {how}": ("SVMClassifier", 2, {**svm(2, "RBF"), "post_transform": how}),
        f"forest two {how}": ("TreeEnsembleClassifier", 2, {**FOREST, "post_transform": how}),
    }
CASES["linear one"] = ("LinearClassifier", 2, {**ONE, "post_transform": "LOGISTIC"})
CASES |= {
    **{
        f"one score {p}": ("LinearClassifier", 2, {**ONE, "post_transform": p})
        for p in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    },
    "regressor probit": (
        "LinearRegressor",
        1,
        {"coefficients": [0.06, -0.04, 0.05, 0.02], "intercepts": [0.5], "post_transform": "PROBIT"},
    ),
    "regressor of one": ("LinearRegressor", 1, {"coefficients": floats(4)}),
    **{
        f"svm of two {p}": ("SVMClassifier", 2, {**svm(2, "RBF"), "post_transform": p})
        for p in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    },
    "svm scores": (
        "SVMClassifier",
        2,
        {
            "coefficients": floats(3, 4),
            "rho": [0.1],
            "classlabels_ints": [4, 2, 9],
            "kernel_type": "LINEAR",
            "kernel_params": [0.0, 0.0, 0.0],
        },
    ),
    "svm regressor linear": (
        "SVMRegressor",
        1,
        {
            "kernel_type": "LINEAR",
            "kernel_params": [0.0, 0.0, 0.0],
            "n_supports": 0,
            "coefficients": floats(4),
            "rho": [0.2],
        },
    ),
    "svm one class": (
        "SVMRegressor",
        1,
        {
            "kernel_type": "POLY",
            "kernel_params": [0.5, 0.1, 3.0],
            "n_supports": 3,
            "support_vectors": floats(3, 4),
            "coefficients": floats(3),
            "rho": [0.05],
            "one_class": 1,
        },
    ),
    "binarizer at a value": ("Binarizer", 1, {"threshold": float(X[2, 1])}),
}


def built(name: str) -> Model:
    op, count, attributes = CASES[name]
    outputs = ["y", "z"][:count]
    one = node(op, "x", " ".join(outputs), domain="ai.onnx.ml", **attributes)
    proto = model([one], {"x": (np.float32, list(X.shape))}, outputs, opset=17, ir_version=8)
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 2))
    for o, code in zip(proto.graph.output, (1,) if count == 1 else (7, 1), strict=True):
        o.type.tensor_type.elem_type = code
    return proto, {"x": X}
