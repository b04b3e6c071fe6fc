"""`tb.optim.swa_utils`: averages of weights under PyTorch's names."""

from trilobite.framework.optim.averaging import (
    ExponentialMovingAverage,
    ParameterAverage,
    StochasticWeightAverage,
    update_bn,
)
from trilobite.framework.optim.schedules import SWALR

AveragedModel = StochasticWeightAverage

__all__ = ["SWALR", "AveragedModel", "ExponentialMovingAverage", "ParameterAverage", "update_bn"]
