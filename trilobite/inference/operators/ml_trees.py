"""Ensembles of decision trees (ai.onnx.ml), as scikit-learn, XGBoost and LightGBM export them.

All samples walk down all trees at once, one level per round. They run on the host: labels may be strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.inference.model import Node
from trilobite.inference.operators.ml_scores import labelled, transformed
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_LEAF = 7


@dataclass
class Forest:
    """Nodes of all trees in one table; children are rows of it, a leaf is its own child."""

    roots: Array
    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    missing_is_yes: Array
    members: dict[int, Array]

    def leaves(self, x: Array) -> Array:
        """(samples, trees): the row of the leaf that each sample ends in."""
        at = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        rows = np.arange(len(x))[:, None]
        for _ in range(len(self.feature) + 1):
            if (self.mode[at] == _LEAF).all():
                return at
            value = x[rows, self.feature[at]]
            at = np.where(self._holds(at, value), self.yes[at], self.no[at])
        raise FileError("a tree of the ensemble never ends in a leaf", expected="trees without cycles")

    def _holds(self, at: Array, value: Array) -> Array:
        split, mode = self.split[at], self.mode[at]
        tests = [value <= split, value < split, value >= split, value > split, value == split, value != split]
        out = np.select([mode == m for m in range(6)], tests, False)
        for row, members in self.members.items():
            here = at == row
            out[here] = np.isin(value[here], members)
        return out | (np.isnan(value) & self.missing_is_yes[at])


def _given(node: Node, name: str) -> Array:
    """An attribute that is a list, or a tensor under a longer name."""
    tensor = node.attribute(f"{name}_as_tensor")
    return np.asarray(node.attribute(name) or () if tensor is None else tensor)


def _old_forest(node: Node) -> tuple[Forest, dict[tuple[int, int], int]]:
    """The layout before version 5: nodes named by tree and number."""
    trees, ids = node.attributes["nodes_treeids"], node.attributes["nodes_nodeids"]
    row = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    mode = np.asarray([_MODES.index(m) if m in _MODES else _LEAF for m in node.attributes["nodes_modes"]])
    first: dict[int, int] = {}
    for i, t in enumerate(trees):
        first.setdefault(t, i)

    def children(name: str) -> Array:
        pairs = zip(trees, node.attributes[name], range(len(trees)), strict=True)
        return np.asarray([row.get((t, c), i) if mode[i] != _LEAF else i for t, c, i in pairs])

    tracks = node.attribute("nodes_missing_value_tracks_true") or (0,) * len(trees)
    forest = Forest(
        np.asarray(list(first.values())), np.asarray(node.attributes["nodes_featureids"]),
        _given(node, "nodes_values"), mode, children("nodes_truenodeids"), children("nodes_falsenodeids"),
        np.asarray(tracks, dtype=bool), {},
    )  # fmt: skip
    return forest, row


def _votes(
    node: Node, forest: Forest, row: dict[tuple[int, int], int], x: Array, kind: str, count: int
) -> tuple[Array, Array]:
    """Weights of the leaves reached, per tree and target, and whether a leaf votes for the target at all."""
    weights = np.zeros((len(forest.feature), count), np.float64)
    voting = np.zeros((len(forest.feature), count), bool)
    names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
    given = zip(*(node.attributes[n] for n in names), _given(node, f"{kind}_weights").tolist(), strict=True)
    for tree, number, target, weight in given:
        weights[row[tree, number], target] += weight
        voting[row[tree, number], target] = True
    leaves = forest.leaves(x)
    return weights[leaves], voting[leaves]


def _joined(votes: Array, voting: Array, how: str) -> Array:
    if how in ("MIN", "MAX"):
        function, edge = (np.min, np.inf) if how == "MIN" else (np.max, -np.inf)
        out = function(np.where(voting, votes, edge), axis=1)
        return np.where(voting.any(axis=1), out, 0.0)
    total = votes.sum(axis=1)
    return total / votes.shape[1] if how == "AVERAGE" else total


@operator("TreeEnsembleRegressor", domain="ai.onnx.ml", host=True, gives="numbers")
def tree_ensemble_regressor(node: Node, x: Array) -> Array:
    forest, row = _old_forest(node)
    votes, voting = _votes(node, forest, row, _real(x), "target", node.attribute("n_targets", 1))
    out = _joined(votes, voting, node.attribute("aggregate_function", "SUM"))
    base = _given(node, "base_values")
    out = out + base if base.size else out
    return transformed(out.astype(np.float32), node.attribute("post_transform", "NONE"))


def _real(x: Array) -> Array:
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


@operator("TreeEnsembleClassifier", domain="ai.onnx.ml", host=True)
def tree_ensemble_classifier(node: Node, x: Array) -> tuple[Array, Array]:
    labels = node.attribute("classlabels_int64s") or node.attribute("classlabels_strings") or (0, 1)
    forest, row = _old_forest(node)
    votes, voting = _votes(node, forest, row, _real(x), "class", max(len(labels), 1))
    scores = _joined(votes, voting, "SUM")
    base = _given(node, "base_values")
    post = node.attribute("post_transform", "NONE")
    one = len(set(node.attributes["class_ids"])) == 1 and len(labels) <= 2
    if base.size:
        scores = scores + (base if base.size == scores.shape[1] else np.resize(base, scores.shape[1]))
    if one:
        positive = scores[:, node.attributes["class_ids"][0]]
        scores = np.stack([1 - positive if post in ("NONE", "PROBIT") else -positive, positive], axis=1)
        labels = labels if len(labels) == 2 else (0, labels[0])
    return labelled(scores.astype(np.float32), labels, post)


@operator("TreeEnsemble", domain="ai.onnx.ml", since=5, host=True, gives="numbers")
def tree_ensemble(node: Node, x: Array) -> Array:
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
    modes = padded(np.asarray(node.attributes["nodes_modes"]).astype(np.int64), _LEAF)
    forest = Forest(
        np.asarray(node.attributes["tree_roots"]), padded(node.attributes["nodes_featureids"], 0),
        padded(node.attributes["nodes_splits"], 0), modes, children("true"), children("false"),
        padded(np.asarray(tracks, dtype=bool), False), _members(node, modes),
    )  # fmt: skip
    weights = np.zeros((rows, node.attributes["n_targets"]), np.float64)
    voting = np.zeros(weights.shape, bool)
    places = np.arange(inner, rows), np.asarray(node.attributes["leaf_targetids"])
    weights[places], voting[places] = leaf_weights, True
    leaves = forest.leaves(x)
    how = ("AVERAGE", "SUM", "MIN", "MAX")[node.attribute("aggregate_function", 1)]
    out = _joined(weights[leaves], voting[leaves], how)
    post = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[node.attribute("post_transform", 0)]
    return transformed(out.astype(x.dtype), post)


def _members(node: Node, modes: Array) -> dict[int, Array]:
    """Sets of the nodes that test for membership, which NaNs keep apart."""
    values = node.attribute("membership_values")
    if values is None:
        return {}
    ends = np.flatnonzero(np.isnan(values))
    sets = np.split(values, ends)
    groups = [s[~np.isnan(s)] for s in sets]
    rows = np.flatnonzero(modes == _MODES.index("BRANCH_MEMBER"))
    return {int(r): g for r, g in zip(rows, groups, strict=False)}
