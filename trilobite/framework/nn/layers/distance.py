"""Similarity and distance as layers."""

from __future__ import annotations

from trilobite.framework.nn import functional as F
from trilobite.framework.nn.layers.base import FunctionLayer


class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors along an axis."""

    inputs = 2
    function = F.cosine_similarity


class PairwiseDistance(FunctionLayer):
    """The p-norm of the difference along the last axis."""

    inputs = 2
    function = F.pairwise_distance
