"""Ensembles of decision trees (ai.onnx.ml), as scikit-learn, XGBoost and LightGBM export them.

What a node says is made into tables with its first run. They run on the host: labels may be strings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.inference.model import Node
from trilobite.inference.operators.ml.forest import LEAF, MEMBER, MODES, Forest
from trilobite.inference.operators.ml.scores import label_array, labelled, transformed
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


@dataclass
class Ensemble:
    """Trees, and by target and row of their table what a leaf says, if it says anything."""

    forest: Forest
    weights: Array
    voting: Array
    base: Array  # a number for each target
    how: str

    def __post_init__(self) -> None:
        self.voted = np.flatnonzero(self.voting.any(axis=1))  # targets that some leaf speaks of
        self._said = np.ascontiguousarray(self.weights.T, np.float64)
        divisor = len(self.forest.roots) if self.how == "AVERAGE" else 1
        base = np.broadcast_to(self.base if self.base.size else 0.0, (len(self.weights),))
        self._base = np.append(base.astype(np.float64), float(divisor))

    def scores(self, x: Array, dtype: Any) -> Array:
        """(samples, targets): what the leaves reached say, joined over the trees."""
        if self.how not in ("MIN", "MAX"):
            return self.forest.sums(x, self._said, self._base, dtype)
        leaves = self.forest.leaves(x)
        joined = np.stack([self._farthest(leaves, target) for target in range(len(self.weights))], axis=1)
        return (joined + self._base[:-1]).astype(dtype)

    def _farthest(self, leaves: Array, target: int) -> Array:
        function, edge = (np.min, np.inf) if self.how == "MIN" else (np.max, -np.inf)
        votes, voting = self.weights[target].take(leaves), self.voting[target].take(leaves)
        return np.where(voting.any(axis=1), function(np.where(voting, votes, edge), axis=1), 0.0)


def _given(node: Node, name: str) -> Array:
    """An attribute that is a list, or a tensor under a longer name."""
    tensor = node.attribute(f"{name}_as_tensor")
    return np.asarray(node.attribute(name) or () if tensor is None else tensor)


def _old_ensemble(node: Node, kind: str, count: int, base: Array, how: str) -> Ensemble:
    """The layout before version 5: nodes named by tree and number."""
    trees, ids = node.attributes["nodes_treeids"], node.attributes["nodes_nodeids"]
    row = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    mode = np.asarray([MODES.index(m) if m in MODES else LEAF for m in node.attributes["nodes_modes"]])
    first: dict[int, int] = {}
    for i, t in enumerate(trees):
        first.setdefault(t, i)

    def children(name: str) -> Array:
        pairs = zip(trees, node.attributes[name], range(len(trees)), strict=True)
        return np.asarray([row.get((t, c), i) if mode[i] != LEAF else i for t, c, i in pairs])

    tracks = node.attribute("nodes_missing_value_tracks_true") or (0,) * len(trees)
    forest = Forest(
        np.asarray(list(first.values())), np.asarray(node.attributes["nodes_featureids"]),
        _given(node, "nodes_values"), mode, children("nodes_truenodeids"), children("nodes_falsenodeids"),
        np.asarray(tracks, dtype=bool),
    )  # fmt: skip
    weights, voting = np.zeros((count, len(mode))), np.zeros((count, len(mode)), bool)
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
    given = zip(*(node.attributes[n] for n in names), _given(node, f"{kind}_weights").tolist(), strict=True)
    for tree, number, target, weight in given:
        weights[target, row[tree, number]] += weight
        voting[target, row[tree, number]] = True
    return Ensemble(forest, weights, voting, base, how)


def _regressor(node: Node) -> Ensemble:
    how = node.attribute("aggregate_function", "SUM")
    return _old_ensemble(node, "target", node.attribute("n_targets", 1), _given(node, "base_values"), how)


class _Classes:
    """An ensemble whose targets are classes. Where leaves speak of one of two alone, its score is that of
    the second class.
    """

    def __init__(self, node: Node) -> None:
        labels = node.attribute("classlabels_int64s") or node.attribute("classlabels_strings") or (0, 1)
        base = _given(node, "base_values")
        base = base if base.size in (0, len(labels)) else np.resize(base, len(labels))
        self.ensemble = _old_ensemble(node, "class", len(labels), base, "SUM")
        voted = self.ensemble.voted
        self.positive = voted[0] if len(voted) == 1 and len(labels) <= 2 else None
        self.labels = label_array(
            (0, labels[0]) if self.positive is not None and len(labels) == 1 else labels
        )


def _real(x: Array) -> Array:
    return x if x.dtype.char in "fd" else x.astype(np.float32)


@operator("TreeEnsembleRegressor", domain="ai.onnx.ml", host=True, gives="numbers")
def tree_ensemble_regressor(node: Node, x: Array) -> Array:
    out = node.prepared(_regressor).scores(_real(x), np.float32)
    return transformed(out, node.attribute("post_transform", "NONE"))


@operator("TreeEnsembleClassifier", domain="ai.onnx.ml", host=True)
def tree_ensemble_classifier(node: Node, x: Array) -> tuple[Array, Array]:
    found, post = node.prepared(_Classes), node.attribute("post_transform", "NONE")
    if found.positive is None:
        return labelled(found.ensemble.scores(_real(x), np.float32), found.labels, post)
    positive = found.ensemble.scores(_real(x), np.float64)[:, found.positive]
    both = np.stack([1 - positive if post in ("NONE", "PROBIT") else -positive, positive], axis=1)
    return labelled(both.astype(np.float32), found.labels, post)


def _ensemble(node: Node) -> Ensemble:
    """The layout of version 5: inner nodes and leaves in tables of their own."""
    inner = len(node.attributes["nodes_featureids"])
    leaf_weights = node.attributes["leaf_weights"]
    rows = inner + len(leaf_weights)

    def children(side: str) -> Array:
        ids = np.asarray(node.attributes[f"nodes_{side}nodeids"])
        leaf = np.asarray(node.attributes[f"nodes_{side}leafs"], dtype=bool)
        return np.concatenate([np.where(leaf, ids + inner, ids), np.arange(inner, rows)])

    def padded(values: Any, fill: Any) -> Array:
        array = np.asarray(values)
        return np.concatenate([array, np.full(len(leaf_weights), fill, array.dtype)])

    tracks = node.attribute("nodes_missing_value_tracks_true") or (0,) * inner
    modes = padded(np.asarray(node.attributes["nodes_modes"]).astype(np.int64), LEAF)
    forest = Forest(
        np.asarray(node.attributes["tree_roots"]), padded(node.attributes["nodes_featureids"], 0),
        padded(node.attributes["nodes_splits"], 0), modes, children("true"), children("false"),
        padded(np.asarray(tracks, dtype=bool), False), _members(node, modes),
    )  # fmt: skip
    weights = np.zeros((node.attributes["n_targets"], rows))
    voting = np.zeros(weights.shape, bool)
    places = np.asarray(node.attributes["leaf_targetids"]), np.arange(inner, rows)
    weights[places], voting[places] = leaf_weights, True
    how = ("AVERAGE", "SUM", "MIN", "MAX")[node.attribute("aggregate_function", 1)]
    return Ensemble(forest, weights, voting, np.zeros(0), how)


@operator("TreeEnsemble", domain="ai.onnx.ml", since=5, host=True, gives="numbers")
def tree_ensemble(node: Node, x: Array) -> Array:
    out = node.prepared(_ensemble).scores(_real(x), np.float64 if x.dtype == np.float64 else np.float32)
    post = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[node.attribute("post_transform", 0)]
    return transformed(out.astype(x.dtype, copy=False), post)


def _members(node: Node, modes: Array) -> dict[int, Array]:
    """Sets of the nodes that test for membership, which NaNs keep apart."""
    values = node.attribute("membership_values")
    if values is None:
        return {}
    ends = np.flatnonzero(np.isnan(values))
    sets = np.split(values, ends)
    groups = [s[~np.isnan(s)] for s in sets]
    rows = np.flatnonzero(modes == MEMBER)
    return {int(r): g for r, g in zip(rows, groups, strict=False)}
