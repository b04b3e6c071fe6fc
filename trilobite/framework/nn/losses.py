"""Losses as layers: each is its function with settings; tensors among the settings are buffers."""

from __future__ import annotations

from typing import Any

from trilobite.framework.nn import functional as F
from trilobite.framework.nn.layers.base import FunctionLayer
from trilobite.framework.nn.module import Module
from trilobite.framework.tensor import Tensor


class _Loss(Module):
    """What PyTorch's losses are, and those of others begin with: `reduction` is kept."""

    reduction: str

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        if reduce is not None or size_average is not None:  # PyTorch's older words
            reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight for each class."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class Loss(FunctionLayer, _Loss):
    """A function of a prediction and a target."""

    inputs = 2


class MSELoss(Loss):
    """(x - y)²."""

    function = F.mse_loss


class L1Loss(Loss):
    """|x - y|."""

    function = F.l1_loss


class SmoothL1Loss(Loss):
    """Squares of small distances, absolute values of large ones."""

    function = F.smooth_l1_loss


class HuberLoss(Loss):
    """Squares of distances up to delta, straight lines beyond."""

    function = F.huber_loss


class CrossEntropyLoss(Loss):
    """nll_loss of log_softmax(x)."""

    function = F.cross_entropy


class NLLLoss(Loss):
    """-x[target] for log probabilities."""

    function = F.nll_loss


class BCELoss(Loss):
    """Binary cross entropy of probabilities."""

    function = F.binary_cross_entropy


class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of sigmoid(x)."""

    function = F.binary_cross_entropy_with_logits


class KLDivLoss(Loss):
    """y·(log y - x)."""

    function = F.kl_div


class PoissonNLLLoss(Loss):
    """-log of a Poisson probability."""

    function = F.poisson_nll_loss


class GaussianNLLLoss(Loss):
    """-log of a normal density; forward(input, target, var)."""

    inputs = 3
    function = F.gaussian_nll_loss


class HingeEmbeddingLoss(Loss):
    """x for pairs that belong together, max(0, margin - x) for others."""

    function = F.hinge_embedding_loss


class SoftMarginLoss(Loss):
    """log(1 + e^(-y·x))."""

    function = F.soft_margin_loss


class MultiMarginLoss(Loss):
    """Margins between the target and the other classes."""

    function = F.multi_margin_loss


class MultiLabelMarginLoss(Loss):
    """A margin between the classes of each row and all others."""

    function = F.multilabel_margin_loss


class MultiLabelSoftMarginLoss(Loss):
    """Binary cross entropy with logits, averaged over classes."""

    function = F.multilabel_soft_margin_loss


class CosineEmbeddingLoss(Loss):
    """1 - cos for pairs that belong together; forward(input1, input2, target)."""

    inputs = 3
    function = F.cosine_embedding_loss


class MarginRankingLoss(Loss):
    """max(0, -y·(x1 - x2) + margin); forward(input1, input2, target)."""

    inputs = 3
    function = F.margin_ranking_loss


class TripletMarginLoss(Loss):
    """The positive nearer than the negative, by a margin; forward(anchor, positive, negative)."""

    inputs = 3
    function = F.triplet_margin_loss


class TripletMarginWithDistanceLoss(Loss):
    """TripletMarginLoss by a distance of one's own."""

    inputs = 3
    function = F.triplet_margin_with_distance_loss


class CTCLoss(Loss):
    """-log P(targets) over all alignments; forward(log_probs, targets, input_lengths, target_lengths)."""

    inputs = 4
    function = F.ctc_loss
