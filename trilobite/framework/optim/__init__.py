"""Optimisers, schedules, averages of parameters, gradient clipping and loss scaling.

Everything a step changes lives in tensors: a step recorded by `jit` and the same step run eagerly give the
same bits. (LBFGS alone is eager only, and says so.)

Enters: parameters with gradients. Leaves: the same cells, written. May import `framework`, `ir` and `base`.
Read `optimizer.py` first, then `sgd.py`.
"""

from trilobite.framework.optim import lr_scheduler, swa_utils
from trilobite.framework.optim.adafactor import Adafactor
from trilobite.framework.optim.adagrad import Adagrad
from trilobite.framework.optim.adam import Adam, AdamW
from trilobite.framework.optim.adam_kin import Adadelta, Adamax, NAdam, RAdam
from trilobite.framework.optim.asgd import ASGD
from trilobite.framework.optim.averaging import (
    ExponentialMovingAverage,
    ParameterAverage,
    StochasticWeightAverage,
    update_bn,
)
from trilobite.framework.optim.clipping import clip_grad_norm_, clip_grad_value_, grad_norm
from trilobite.framework.optim.combined import ChainedScheduler, SequentialLR
from trilobite.framework.optim.lamb import LAMB
from trilobite.framework.optim.lbfgs import LBFGS
from trilobite.framework.optim.lion import Lion
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.plateau import ReduceLROnPlateau
from trilobite.framework.optim.rmsprop import RMSprop
from trilobite.framework.optim.rprop import Rprop
from trilobite.framework.optim.scaler import GradScaler
from trilobite.framework.optim.schedule import Schedule
from trilobite.framework.optim.schedules import (
    SWALR,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    StepLR,
)
from trilobite.framework.optim.sgd import SGD

__all__ = [
    "SGD", "Adagrad", "RMSprop", "Adam", "AdamW",
    "NAdam", "RAdam", "Adamax", "Adadelta", "Adafactor", "Lion", "LAMB", "LBFGS", "ASGD", "Rprop",
    "Optimizer",
    "Schedule", "LambdaLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR",
    "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR", "SWALR",
    "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau",
    "clip_grad_norm_", "clip_grad_value_", "grad_norm", "lr_scheduler", "swa_utils",
    "ExponentialMovingAverage", "StochasticWeightAverage", "ParameterAverage", "update_bn", "GradScaler",
]  # fmt: skip
