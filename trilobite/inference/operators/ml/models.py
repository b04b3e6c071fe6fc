"""Linear models and support vectors of ai.onnx.ml. They run on the host: labels may be strings."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from trilobite.inference.model import Node
from trilobite.inference.operators.ml.scores import label_array, labelled, logistic, of_two, transformed
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"


def _arrays(node: Node) -> dict[str, Array]:
    lists = {name: value for name, value in node.attributes.items() if isinstance(value, tuple | list)}
    return {name: np.asarray(v, np.float32) for name, v in lists.items() if v and isinstance(v[0], float)}


def _floats(node: Node, name: str) -> Array:
    """A list of numbers among the attributes."""
    return node.prepared(_arrays)[name]


def _rows(x: Array) -> Array:
    rows = x.reshape(1, -1) if x.ndim == 1 else x.reshape(len(x), -1)
    return rows.astype(np.float32)


@operator("LinearRegressor", domain=ML, host=True, gives="numbers")
def linear_regressor(node: Node, x: Array) -> Array:
    out = _rows(x) @ _floats(node, "coefficients").reshape(node.attribute("targets", 1), -1).T
    if node.attribute("intercepts"):
        out = out + _floats(node, "intercepts")
    return transformed(out, node.attribute("post_transform", "NONE"))


def _class_labels(node: Node) -> Array:
    return label_array(node.attribute("classlabels_ints") or node.attribute("classlabels_strings") or (0, 1))


@operator("LinearClassifier", domain=ML, host=True)
def linear_classifier(node: Node, x: Array) -> tuple[Array, Array]:
    labels = node.prepared(_class_labels)
    rows, flat = _rows(x), _floats(node, "coefficients")
    count = len(node.attribute("intercepts") or ()) or len(flat) // rows.shape[1]
    weights = flat[: count * rows.shape[1]].reshape(count, -1)
    scores = rows @ weights.T
    if node.attribute("intercepts"):
        scores = scores + _floats(node, "intercepts")
    post = node.attribute("post_transform", "NONE")
    if scores.shape[1] > 1:
        return labelled(scores, labels, post)
    both = of_two(scores, post)
    names = label_array(labels if len(labels) == 2 else (0, labels[0]))
    return names[(scores[:, 0] > 0).astype(np.int64)], both if len(labels) == 2 else both[:, 1:]


_BLOCK = 64  # samples whose distances to all vectors stay in a cache


def _gaps(x: Array, vectors: Array) -> Array:
    """Squared distances, feature by feature: rounded as they are, unlike |x|² + |v|² - 2 x·v."""
    out = np.zeros((len(x), len(vectors)), np.float32)
    columns = np.ascontiguousarray(vectors.T)
    for start in range(0, len(x), _BLOCK):
        rows, block = x[start : start + _BLOCK], out[start : start + _BLOCK]
        gap = np.empty_like(block)
        for feature, column in enumerate(columns):
            np.subtract(rows[:, feature, None], column, out=gap)
            block += np.multiply(gap, gap, out=gap)
    return out


def _kernel(node: Node, x: Array, vectors: Array) -> Array:
    gamma, coefficient, degree = (*(node.attribute("kernel_params") or ()), 0.0, 0.0, 0.0)[:3]
    kind = node.attribute("kernel_type", "LINEAR")
    if kind == "RBF":
        gaps = _gaps(x, vectors)
        return np.exp(np.multiply(gaps, -gamma, out=gaps), out=gaps)
    product = x @ vectors.T
    if kind == "POLY":
        return (gamma * product + coefficient) ** degree
    return np.tanh(gamma * product + coefficient) if kind == "SIGMOID" else product


@operator("SVMRegressor", domain=ML, host=True, gives="numbers")
def svm_regressor(node: Node, x: Array) -> Array:
    rows, count = _rows(x), node.attribute("n_supports", 0)
    weights = _floats(node, "coefficients")
    if count:
        vectors = _floats(node, "support_vectors").reshape(count, -1)
        out = _kernel(node, rows, vectors) @ weights.reshape(-1)
    else:
        out = _kernel(node, rows, weights.reshape(1, -1))[:, 0]
    out = out + node.attributes["rho"][0]
    if node.attribute("one_class", 0):
        out = np.where(out > 0, 1.0, -1.0)
    return transformed(out.reshape(-1, 1).astype(np.float32), node.attribute("post_transform", "NONE"))


@operator("SVMClassifier", domain=ML, host=True)
def svm_classifier(node: Node, x: Array) -> tuple[Array, Array]:
    """One against one, as libsvm does, or one score per class where there are no support vectors."""
    labels = node.attribute("classlabels_ints") or node.attribute("classlabels_strings") or (0, 1)
    rows, post = _rows(x), node.attribute("post_transform", "NONE")
    rho = _floats(node, "rho")
    counts = node.attribute("vectors_per_class")
    if not counts:
        weights = _floats(node, "coefficients").reshape(len(labels), -1)
        return labelled((_kernel(node, rows, weights) + rho[0]).astype(np.float32), labels, post)
    pairs = _pairwise(node, rows, counts, rho)
    votes = np.zeros((len(rows), len(labels)))
    for k, (i, j) in enumerate(combinations(range(len(labels)), 2)):
        votes[:, i] += pairs[:, k] > 0
        votes[:, j] += pairs[:, k] <= 0
    names = label_array(labels)[np.argmax(votes, axis=1)]
    if node.attribute("prob_a"):
        pairs = np.stack([_chances(node, row, len(labels)) for row in pairs])
    elif len(labels) == 2:
        one = pairs.astype(np.float32)
        return names, np.concatenate([-one, one], axis=1) if post == "NONE" else of_two(one, post)
    return names, transformed(pairs.astype(np.float32), post)


def _pairwise(node: Node, rows: Array, counts: Any, rho: Array) -> Array:
    """A score for each pair of classes: positive for the first."""
    total, classes = sum(counts), len(counts)
    vectors = _floats(node, "support_vectors").reshape(total, -1)
    weights = _floats(node, "coefficients").reshape(classes - 1, total)
    kernel, ends = _kernel(node, rows, vectors), np.cumsum([0, *counts])
    out = []
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        a, b = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        out.append(kernel[:, a] @ weights[j - 1, a] + kernel[:, b] @ weights[i, b] + rho[k])
    return np.stack(out, axis=1)


def _chances(node: Node, scores: Array, classes: int) -> Array:
    """Probabilities of classes that agree best with those of pairs (Wu, Lin and Weng, method 2)."""
    a, b = np.asarray(node.attributes["prob_a"]), np.asarray(node.attributes["prob_b"])
    pair = np.clip(1 - logistic(scores.astype(np.float64) * a + b), 1e-7, 1 - 1e-7)
    r = np.zeros((classes, classes))
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        r[i, j], r[j, i] = pair[k], 1 - pair[k]
    q = -r.T * r
    np.fill_diagonal(q, (r**2).sum(axis=0))
    p = np.full(classes, 1 / classes)
    for _ in range(max(100, classes)):
        qp = q @ p
        both = p @ qp
        if np.abs(qp - both).max() < 0.005 / classes:
            break
        for t in range(classes):
            step = (both - qp[t]) / q[t, t]
            p[t] += step
            both = (both + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) ** 2
            p /= 1 + step
            qp = (qp + step * q[t]) / (1 + step)
    return p
