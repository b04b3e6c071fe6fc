"""Metrics: functions for one batch, and classes that accumulate over batches, merge and save their state.

They read anything with `__array__` and compute on the host in NumPy; they are not differentiable.

Enters: predictions and targets, batch after batch. Leaves: numbers, and state that can be saved. May import
`base` alone. Read `base.py` first.
"""

from trilobite.framework.metrics.base import Metric
from trilobite.framework.metrics.classification import (
    Accuracy,
    ConfusionMatrix,
    PrecisionRecallF1,
    Scores,
    TopKAccuracy,
    accuracy,
    confusion_matrix,
    f1,
    precision,
    precision_recall_f1,
    recall,
    top_k_accuracy,
)
from trilobite.framework.metrics.detection import (
    DetectionMeanAveragePrecision,
    DetectionScores,
    detection_mean_average_precision,
)
from trilobite.framework.metrics.mean import Mean, Perplexity, perplexity
from trilobite.framework.metrics.ranking import (
    MeanAveragePrecision,
    average_precision,
    mean_average_precision,
)

__all__ = [
    "Metric", "Mean", "Accuracy", "TopKAccuracy", "ConfusionMatrix", "PrecisionRecallF1", "Scores",
    "Perplexity", "MeanAveragePrecision", "DetectionMeanAveragePrecision", "DetectionScores",
    "accuracy", "top_k_accuracy", "confusion_matrix", "precision_recall_f1", "precision", "recall", "f1",
    "perplexity", "average_precision", "mean_average_precision", "detection_mean_average_precision",
]  # fmt: skip
