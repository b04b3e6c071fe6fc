"""Functions of tensors without state: what the layers are made of.

Enters: tensors. Leaves: tensors; what has a name of its own in a graph becomes a composite (`../composites`).
May import `framework`, `ir` and `base`, no modules. Read `calling.py` first, then `activation.py`.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from trilobite.framework.nn.functional.activation import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    rrelu,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from trilobite.framework.nn.functional.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from trilobite.framework.nn.functional.attention import rotary_embedding, scaled_dot_product_attention
from trilobite.framework.nn.functional.calling import of_tensors
from trilobite.framework.nn.functional.classification import (
    cross_entropy,
    multi_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    one_hot,
)
from trilobite.framework.nn.functional.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from trilobite.framework.nn.functional.ctc import ctc_loss
from trilobite.framework.nn.functional.distance import cosine_similarity, pairwise_distance
from trilobite.framework.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from trilobite.framework.nn.functional.embedding import embedding, embedding_bag
from trilobite.framework.nn.functional.folding import fold, unfold
from trilobite.framework.nn.functional.fractional import fractional_max_pool2d, fractional_max_pool3d
from trilobite.framework.nn.functional.linear import bilinear, linear
from trilobite.framework.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from trilobite.framework.nn.functional.margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from trilobite.framework.nn.functional.multi_head import multi_head_attention_forward
from trilobite.framework.nn.functional.normalisation import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from trilobite.framework.nn.functional.padding import pad
from trilobite.framework.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from trilobite.framework.nn.functional.resampling import (
    channel_shuffle,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
    upsample,
)
from trilobite.framework.nn.functional.sampling import (
    affine_grid,
    grid_sample,
    gumbel_softmax,
    multilabel_margin_loss,
    pdist,
)
from trilobite.framework.tensor import Tensor


def _also_in_place(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`relu_(x)`: the activation stored in the tensor itself."""

    def change(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return fn(input, *args, **{**kwargs, "inplace": True})

    change.__name__, change.__doc__ = f"{fn.__name__}_", f"{fn.__name__}, stored in the tensor itself."
    return change


_IN_PLACE: tuple[Callable[..., Tensor], ...] = (
    relu, elu, celu, selu, leaky_relu, hardtanh, threshold, rrelu,
)  # fmt: skip
relu_, elu_, celu_, selu_, leaky_relu_, hardtanh_, threshold_, rrelu_ = map(_also_in_place, _IN_PLACE)


def _with_indices(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **{**kwargs, "return_indices": True})

    call.__name__, call.__doc__ = f"{fn.__name__}_with_indices", f"{fn.__name__} with return_indices."
    return call


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    _with_indices, (max_pool1d, max_pool2d, max_pool3d)
)
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = map(
    _with_indices, (adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)
)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of (time, batch, channels) by a weight of (taps, in, out)."""
    out = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1)  # type: ignore[no-any-return]


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate to the nearest element."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate between pixels, corners aligned."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


__all__ = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
    "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu",
    "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "rotary_embedding", "scaled_dot_product_attention",
    "cross_entropy", "multi_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "one_hot", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "ctc_loss",
    "cosine_similarity", "pairwise_distance", "alpha_dropout", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "feature_alpha_dropout", "embedding", "embedding_bag", "fold", "unfold", "bilinear",
    "linear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss", "cosine_embedding_loss",
    "hinge_embedding_loss", "margin_ranking_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "batch_norm", "group_norm", "instance_norm", "layer_norm",
    "local_response_norm", "normalize", "rms_norm", "pad", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "channel_shuffle", "interpolate", "pixel_shuffle", "pixel_unshuffle",
    "upsample", "grid_sample", "affine_grid", "gumbel_softmax", "pdist", "multilabel_margin_loss",
    "upsample_nearest", "upsample_bilinear", "relu_", "elu_", "celu_", "selu_", "leaky_relu_", "hardtanh_",
    "threshold_", "rrelu_", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices", "multi_head_attention_forward", "fractional_max_pool2d",
    "fractional_max_pool3d", "conv_tbc",
]  # fmt: skip

# What goes through `run` alone says so itself, at no cost; the others look at their operands first.
_AT_ONCE = ("activation", "linear", "calling")
for _name in __all__:
    _fn = globals()[_name]
    if _fn.__module__.rpartition(".")[2] not in _AT_ONCE:
        globals()[_name] = of_tensors(_fn)
        setattr(sys.modules[_fn.__module__], _name, globals()[_name])  # one function under one name
