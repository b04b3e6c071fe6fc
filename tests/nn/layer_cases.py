"""Every layer with arguments and inputs that discriminate: odd sizes, negative numbers, settings that are not
the defaults.

Classes and arguments are those that PyTorch has too, so the same table builds both sides of the peer tests.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Normal:
    shape: tuple[int, ...]
    scale: float = 1.5

    def make(self, rng: np.random.Generator) -> Array:
        return rng.standard_normal(self.shape) * self.scale


@dataclass(frozen=True)
class Ints:
    shape: tuple[int, ...]
    below: int
    start: int = 0

    def make(self, rng: np.random.Generator) -> Array:
        return rng.integers(self.start, self.below, self.shape)


@dataclass(frozen=True)
class Choice:
    """Numbers drawn from a few; as a target, not differentiated."""

    shape: tuple[int, ...]
    of: tuple[float, ...]

    def make(self, rng: np.random.Generator) -> Array:
        return rng.choice(np.array(self.of), self.shape)


@dataclass(frozen=True)
class Probabilities:
    shape: tuple[int, ...]
    axis: int | None = None

    def make(self, rng: np.random.Generator) -> Array:
        x = rng.uniform(0.05, 0.95, self.shape)
        return x if self.axis is None else x / x.sum(self.axis, keepdims=True)


@dataclass(frozen=True)
class LogProbabilities:
    shape: tuple[int, ...]
    axis: int

    def make(self, rng: np.random.Generator) -> Array:
        x = rng.standard_normal(self.shape)
        return x - np.log(np.exp(x).sum(self.axis, keepdims=True))


@dataclass(frozen=True)
class Given:
    value: Any

    def make(self, rng: np.random.Generator) -> Array:
        return np.array(self.value)


@dataclass(frozen=True)
class Case:
    layer: str
    args: tuple[Any, ...] = ()
    inputs: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()  # inputs that are targets: constants, even if they are floats
    second: bool = True  # has second derivatives worth checking
    own: bool = False  # PyTorch has no such arguments
    tol: float = 2e-6

    @property
    def id(self) -> str:
        settings = ",".join([*map(str, self.args), *(f"{k}={v}" for k, v in self.kwargs.items())])
        shapes = ";".join(str(getattr(i, "shape", "")) for i in self.inputs)
        return f"{self.layer}({settings})[{shapes}]".replace(" ", "")

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        return [i.make(rng) for i in self.inputs]


def N(*shape: int, scale: float = 1.5) -> Normal:
    return Normal(shape, scale)


def C(layer: str, *args: Any, x: Any, call: dict[str, Any] | None = None, **kw: Any) -> Case:
    """A case; keywords that Case has are Case's, the others the layer's."""
    inputs = x if isinstance(x, tuple) else (x,)
    own = {k: kw.pop(k) for k in ("fixed", "second", "own", "tol") if k in kw}
    return Case(layer, args, inputs, kw, call or {}, **own)


LINEAR = [
    C("Identity", x=N(2, 3)),
    C("Linear", 5, 7, x=N(3, 5)),
    C("Linear", 5, 1, bias=False, x=N(2, 3, 5)),
    C("Linear", 4, 3, x=N(4)),
    C("Bilinear", 3, 4, 5, x=(N(2, 3), N(2, 4))),
    C("Bilinear", 3, 2, 1, bias=False, x=(N(2, 3, 3), N(2, 3, 2))),
    C("Flatten", x=N(2, 3, 4)),
    C("Flatten", 0, 1, x=N(2, 3, 4)),
    C("Unflatten", 1, (2, 3), x=N(2, 6, 3)),
    C("CosineSimilarity", 1, x=(N(3, 4, 2), N(3, 4, 2))),
    C("PairwiseDistance", 3.0, keepdim=True, x=(N(3, 4), N(3, 4))),
]

ACTIVATIONS = [
    *(
        C(name, x=N(3, 7, scale=3.0))
        for name in (
            "ReLU ReLU6 LeakyReLU Hardtanh Hardshrink Softshrink Tanhshrink Sigmoid LogSigmoid Hardsigmoid "
            "SiLU Hardswish Mish ELU SELU CELU Softplus Softsign Tanh GELU PReLU"
        ).split()
    ),
    C("LeakyReLU", 0.3, x=N(5)),
    C("Hardtanh", -2.0, 0.5, x=N(4, 5)),
    C("Threshold", 0.4, -7.0, x=N(4, 5)),
    C("Hardshrink", 1.1, x=N(4, 5)),
    C("Softshrink", 0.9, x=N(4, 5)),
    C("ELU", 0.7, x=N(4, 5)),
    C("CELU", 1.7, x=N(4, 5)),
    C("Softplus", 2.5, 3.0, x=N(4, 5)),
    C("GELU", "tanh", x=N(4, 5)),
    C("PReLU", 3, x=N(2, 3, 4)),
    C("GLU", x=N(3, 6)),
    C("GLU", 1, x=N(2, 4, 3)),
    C("Softmax", -1, x=N(3, 5)),
    C("Softmax", 1, x=N(2, 3, 4)),
    C("LogSoftmax", 0, x=N(3, 5)),
    C("Softmin", 1, x=N(3, 5)),
    C("Softmax2d", x=N(2, 3, 2, 2)),
    C("RReLU", 0.2, 0.2, x=N(3, 4)),
]

NORMS = [
    C("BatchNorm1d", 5, x=N(4, 5)),
    C("BatchNorm1d", 3, momentum=None, x=N(2, 3, 5)),
    C("BatchNorm1d", 3, affine=False, track_running_stats=False, x=N(3, 3)),
    C("BatchNorm2d", 3, eps=1e-2, momentum=0.3, x=N(2, 3, 3, 5)),
    C("BatchNorm3d", 2, x=N(2, 2, 2, 3, 2)),
    C("LayerNorm", 5, x=N(3, 5)),
    C("LayerNorm", (3, 4), eps=1e-3, x=N(2, 3, 4)),
    C("LayerNorm", 4, bias=False, x=N(3, 4)),
    C("LayerNorm", 4, elementwise_affine=False, x=N(2, 3, 4)),
    C("GroupNorm", 2, 6, x=N(2, 6, 3)),
    C("GroupNorm", 2, 4, bias=False, x=N(2, 4, 3)),
    C("BatchNorm1d", 3, bias=False, x=N(4, 3)),
    C("InstanceNorm1d", 3, affine=True, bias=False, x=N(2, 3, 4)),
    C("GroupNorm", 3, 3, affine=False, x=N(2, 3, 2, 3)),
    C("InstanceNorm1d", 3, x=N(2, 3, 5)),
    C("InstanceNorm1d", 3, x=N(3, 5)),
    C("InstanceNorm2d", 3, affine=True, track_running_stats=True, x=N(2, 3, 3, 2)),
    C("InstanceNorm3d", 2, x=N(2, 2, 2, 3, 2)),
    C("RMSNorm", 5, x=N(3, 5)),
    C("RMSNorm", (2, 3), eps=0.1, x=N(3, 2, 3)),
    C("LocalResponseNorm", 3, alpha=0.3, beta=0.6, k=1.5, x=N(2, 5, 3)),
    C("LocalResponseNorm", 2, alpha=0.1, x=N(2, 3, 2, 2)),
    C("CrossMapLRN2d", 3, alpha=0.3, beta=0.6, k=1.5, x=N(2, 5, 3, 2)),
    C("CrossMapLRN2d", 4, alpha=0.2, x=N(1, 6, 2, 2)),
]

CONVOLUTIONS = [
    C("Conv1d", 3, 4, 3, x=N(2, 3, 8)),
    C("Conv1d", 4, 6, 3, stride=2, padding=2, dilation=2, groups=2, x=N(1, 4, 9)),
    C("Conv1d", 2, 3, 4, padding="same", x=N(2, 2, 7)),
    C("Conv2d", 3, 2, (3, 2), stride=(2, 1), padding=(1, 0), x=N(2, 3, 5, 6)),
    C("Conv2d", 4, 8, 3, groups=4, bias=False, x=N(1, 4, 5, 5)),
    C("Conv2d", 2, 3, 3, padding=1, padding_mode="reflect", x=N(1, 2, 4, 5)),
    C("Conv2d", 2, 3, 3, padding=(2, 1), padding_mode="replicate", x=N(1, 2, 4, 3)),
    C("Conv2d", 2, 3, 3, padding=2, padding_mode="circular", x=N(1, 2, 4, 3)),
    C("Conv2d", 2, 2, (2, 4), padding="same", dilation=(3, 1), padding_mode="reflect", x=N(1, 2, 5, 6)),
    C("Conv2d", 3, 2, 2, x=N(3, 4, 4)),
    C("Conv3d", 2, 2, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1), x=N(1, 2, 2, 4, 3)),
    C("ConvTranspose1d", 3, 4, 3, stride=2, padding=1, output_padding=1, x=N(2, 3, 4)),
    C(
        "ConvTranspose2d",
        4,
        6,
        (3, 2),
        stride=(2, 3),
        padding=(1, 0),
        groups=2,
        dilation=(2, 1),
        x=N(1, 4, 3, 2),
    ),
    C("ConvTranspose2d", 2, 3, 3, bias=False, x=N(2, 3, 3)),
    C("ConvTranspose3d", 2, 2, 2, stride=(1, 2, 2), output_padding=(0, 1, 0), x=N(1, 2, 2, 2, 2)),
]

POOLS = [
    C("MaxPool1d", 3, x=N(2, 2, 8)),
    C("MaxPool1d", 3, stride=2, padding=1, dilation=2, ceil_mode=True, x=N(2, 2, 9)),
    C("MaxPool2d", (2, 3), stride=(1, 2), padding=(1, 1), x=N(2, 2, 5, 6)),
    C("MaxPool2d", 2, return_indices=True, x=N(1, 2, 5, 4)),
    C("MaxPool2d", 3, stride=2, ceil_mode=True, x=N(3, 6, 7)),
    C("MaxPool3d", 2, stride=1, x=N(1, 2, 3, 3, 3)),
    C("AvgPool1d", 3, stride=2, padding=1, x=N(2, 2, 8)),
    C("AvgPool2d", (2, 3), ceil_mode=True, count_include_pad=False, padding=(1, 1), x=N(2, 2, 5, 7)),
    C("AvgPool2d", 3, stride=2, padding=1, ceil_mode=True, x=N(1, 2, 6, 6)),
    C("AvgPool2d", 2, divisor_override=3, x=N(1, 2, 4, 4)),
    C("AvgPool3d", 2, x=N(1, 2, 4, 3, 2)),
    C("LPPool1d", 2, 3, stride=2, x=N(2, 2, 8)),
    C("LPPool2d", 2.0, (2, 3), ceil_mode=True, x=N(1, 2, 5, 5)),
    C("LPPool3d", 2, 2, x=N(1, 1, 2, 4, 2)),
    C("AdaptiveAvgPool1d", 3, x=N(2, 2, 7)),
    C("AdaptiveAvgPool2d", (3, 2), x=N(2, 2, 5, 6)),
    C("AdaptiveAvgPool2d", (None, 1), x=N(2, 3, 4)),
    C("AdaptiveAvgPool3d", 2, x=N(1, 2, 3, 4, 5)),
    C("AdaptiveMaxPool1d", 4, x=N(2, 2, 7)),
    C("AdaptiveMaxPool2d", (3, 2), return_indices=True, x=N(2, 2, 5, 7)),
    C("AdaptiveMaxPool2d", 2, x=N(2, 4, 4)),
    C("AdaptiveMaxPool3d", (2, 1, 3), x=N(1, 2, 3, 4, 5)),
    C("MaxUnpool1d", 2, stride=2, x=(N(1, 2, 3), Given([[[0, 3, 5], [1, 2, 4]]]))),
    C("MaxUnpool2d", 2, x=(N(1, 1, 2, 2), Given([[[[0, 3], [13, 10]]]]))),
    C("MaxUnpool3d", 2, x=(N(1, 1, 1, 1, 2), Given([[[[[1, 7]]]]]))),
]

RESAMPLING = [
    C("Upsample", scale_factor=2, x=N(1, 2, 3, 4)),
    C("Upsample", size=(5, 3), x=N(1, 2, 3, 4)),
    C("Upsample", size=7, mode="nearest-exact", x=N(1, 2, 5)),
    C("Upsample", scale_factor=2.3, mode="linear", x=N(1, 2, 5)),
    C("Upsample", scale_factor=(1.7, 0.6), mode="bilinear", x=N(1, 2, 4, 5)),
    C("Upsample", size=(7, 2), mode="bilinear", align_corners=True, x=N(1, 2, 4, 5)),
    C("Upsample", size=(5, 6), mode="bicubic", x=N(1, 2, 4, 4)),
    C(
        "Upsample",
        scale_factor=1.5,
        mode="bicubic",
        align_corners=True,
        recompute_scale_factor=True,
        x=N(1, 1, 4, 5),
    ),
    C("Upsample", size=(3, 4, 2), mode="trilinear", x=N(1, 1, 2, 3, 4)),
    C("Upsample", size=(3, 2), mode="area", x=N(1, 2, 5, 4)),
    C("UpsamplingNearest2d", scale_factor=3, x=N(1, 2, 2, 3)),
    C("UpsamplingBilinear2d", scale_factor=2, x=N(1, 2, 3, 2)),
    C("PixelShuffle", 2, x=N(1, 8, 2, 3)),
    C("PixelUnshuffle", 3, x=N(1, 2, 3, 6)),
    C("ChannelShuffle", 2, x=N(1, 4, 2, 3)),
]

PADDING = [
    C("Unfold", (2, 3), dilation=(2, 1), padding=1, stride=(1, 2), x=N(2, 2, 4, 5)),
    C("Unfold", 2, x=N(2, 3, 4)),
    C("Fold", (4, 5), (2, 3), dilation=(2, 1), padding=1, stride=(1, 2), x=N(2, 12, 12)),
    C("Fold", 3, 2, x=N(8, 4)),
    C("ZeroPad1d", (2, 1), x=N(1, 2, 4)),
    C("ZeroPad2d", (1, -1, 2, 0), x=N(1, 2, 3, 4)),
    C("ZeroPad3d", 1, x=N(1, 1, 2, 2, 2)),
    C("ConstantPad1d", 2, 3.5, x=N(2, 3, 4)),
    C("ConstantPad2d", (3, 0, 2, 1), -1.25, x=N(2, 3, 4)),
    C("ConstantPad3d", (1, 0, 2, 1, 0, 1), 2.0, x=N(1, 1, 2, 2, 2)),
    C("ReflectionPad1d", (2, 3), x=N(1, 2, 4)),
    C("ReflectionPad2d", (1, 2, 0, 1), x=N(1, 2, 3, 4)),
    C("ReflectionPad3d", 1, x=N(1, 1, 2, 3, 2)),
    C("ReplicationPad1d", (3, 1), x=N(2, 3)),
    C("ReplicationPad2d", (4, 0, 1, 2), x=N(1, 2, 3, 4)),
    C("ReplicationPad3d", 1, x=N(1, 1, 2, 2, 2)),
    C("CircularPad1d", (3, 2), x=N(1, 2, 4)),
    C("CircularPad2d", (1, 2, 0, 3), x=N(1, 2, 3, 4)),
    C("CircularPad3d", 1, x=N(1, 1, 2, 2, 2)),
]

EMBEDDINGS = [
    C("Embedding", 7, 3, x=Ints((2, 4), 7)),
    C("Embedding", 7, 3, padding_idx=-2, x=Given([[5, 1, 5], [0, 5, 6]])),
    C("Embedding", 5, 2, scale_grad_by_freq=True, second=False, x=Given([1, 1, 4, 1, 0])),
    C("EmbeddingBag", 7, 3, x=Ints((3, 4), 7)),
    C("EmbeddingBag", 7, 3, mode="sum", padding_idx=2, x=Given([[2, 1, 5], [0, 2, 6]])),
    C("EmbeddingBag", 7, 3, mode="max", x=(Given([3, 1, 4, 6, 5, 2]), Given([0, 2, 2, 5]))),
    C("EmbeddingBag", 7, 3, mode="mean", padding_idx=1, x=(Given([3, 1, 4, 1, 5, 2]), Given([0, 2, 3, 4]))),
    C(
        "EmbeddingBag",
        7,
        3,
        mode="sum",
        include_last_offset=True,
        x=(Given([3, 1, 4, 1, 5]), Given([0, 2, 5])),
    ),
]

RECURRENT = [
    C("RNN", 3, 4, x=N(5, 2, 3)),
    C("RNN", 3, 4, 2, nonlinearity="relu", bidirectional=True, batch_first=True, x=N(2, 3, 3)),
    C("RNN", 3, 2, bias=False, x=(N(4, 3), N(1, 2))),
    C("LSTM", 3, 4, x=N(5, 2, 3)),
    C("LSTM", 3, 2, 2, bidirectional=True, x=N(3, 2, 3)),
    C("LSTM", 3, 4, proj_size=2, batch_first=True, x=N(2, 4, 3)),
    C("LSTM", 2, 3, bias=False, x=N(3, 2)),
    C("GRU", 3, 4, x=(N(4, 2, 3), N(1, 2, 4))),
    C("GRU", 3, 2, 2, bidirectional=True, batch_first=True, x=N(2, 3, 3)),
    C("RNNCell", 3, 4, x=(N(2, 3), N(2, 4))),
    C("RNNCell", 3, 4, nonlinearity="relu", bias=False, x=N(3)),
    C("LSTMCell", 3, 4, x=N(2, 3)),
    C("GRUCell", 3, 4, x=(N(2, 3), N(2, 4))),
]

ATTENTION = [
    C("MultiheadAttention", 6, 3, x=(N(4, 2, 6), N(5, 2, 6), N(5, 2, 6))),
    C("MultiheadAttention", 6, 2, batch_first=True, bias=False, x=(N(2, 3, 6), N(2, 4, 6), N(2, 4, 6))),
    C("MultiheadAttention", 4, 2, kdim=3, vdim=5, x=(N(3, 2, 4), N(4, 2, 3), N(4, 2, 5))),
    C("MultiheadAttention", 4, 2, add_bias_kv=True, add_zero_attn=True, x=(N(3, 4), N(2, 4), N(2, 4))),
    C("MultiheadAttention", 6, 2, x=(N(4, 2, 6), N(4, 2, 6), N(4, 2, 6)), call={"need_weights": False}),
    C(
        "MultiheadAttention",
        6,
        3,
        x=(N(3, 2, 6), N(3, 2, 6), N(3, 2, 6)),
        call={"average_attn_weights": False},
    ),
    C(
        "MultiheadAttention",
        8,
        4,
        num_kv_heads=2,
        rotary=True,
        own=True,
        x=(N(3, 2, 8), N(5, 2, 8), N(5, 2, 8)),
    ),
    C("RotaryEmbedding", own=True, x=N(2, 3, 5, 4)),
    C("RotaryEmbedding", 500.0, True, own=True, x=N(3, 6)),
    C("TransformerEncoderLayer", 4, 2, 6, dropout=0.0, x=N(3, 2, 4)),
    C(
        "TransformerEncoderLayer",
        4,
        2,
        6,
        dropout=0.0,
        activation="gelu",
        norm_first=True,
        batch_first=True,
        x=N(2, 3, 4),
    ),
    C("TransformerDecoderLayer", 4, 2, 6, dropout=0.0, x=(N(3, 2, 4), N(4, 2, 4)), tol=1e-5),
    C(
        "TransformerDecoderLayer",
        4,
        1,
        5,
        dropout=0.0,
        norm_first=True,
        bias=False,
        x=(N(2, 1, 4), N(3, 1, 4)),
    ),
    C("Transformer", 4, 2, 1, 1, 6, dropout=0.0, x=(N(3, 2, 4), N(2, 2, 4)), tol=1e-5),
]

_PAIR = (N(3, 4), N(3, 4))
LOSSES = [
    C("MSELoss", x=_PAIR),
    C("MSELoss", reduction="sum", x=_PAIR),
    C("L1Loss", reduction="none", x=_PAIR),
    C("SmoothL1Loss", beta=0.7, x=_PAIR),
    C("SmoothL1Loss", beta=0.0, x=_PAIR),
    C("HuberLoss", delta=1.3, x=_PAIR),
    C("CrossEntropyLoss", x=(N(4, 5), Ints((4,), 5))),
    C("CrossEntropyLoss", label_smoothing=0.2, ignore_index=1, x=(N(4, 3), Given([2, 1, 0, 2]))),
    C("CrossEntropyLoss", reduction="none", x=(N(2, 3, 4), Ints((2, 4), 3))),
    C("CrossEntropyLoss", x=(N(5), Ints((), 5))),
    C("CrossEntropyLoss", label_smoothing=0.1, x=(N(3, 4), Probabilities((3, 4), 1)), fixed=(1,)),
    C("CrossEntropyLoss", reduction="sum", x=(N(2, 3, 2), Probabilities((2, 3, 2), 1)), fixed=(1,)),
    C("NLLLoss", x=(LogProbabilities((4, 5), 1), Ints((4,), 5))),
    C("NLLLoss", ignore_index=0, x=(LogProbabilities((2, 3, 4), 1), Ints((2, 4), 3))),
    C("BCELoss", x=(Probabilities((3, 4)), Probabilities((3, 4)))),
    C("BCEWithLogitsLoss", x=(N(3, 4, scale=4.0), Probabilities((3, 4)))),
    C("KLDivLoss", reduction="batchmean", x=(LogProbabilities((3, 4), 1), Probabilities((3, 4), 1))),
    C(
        "KLDivLoss",
        log_target=True,
        reduction="sum",
        x=(LogProbabilities((3, 4), 1), LogProbabilities((3, 4), 1)),
    ),
    C("PoissonNLLLoss", full=True, x=(N(3, 4), Choice((3, 4), (0.0, 1.0, 2.0, 5.0))), fixed=(1,)),
    C("PoissonNLLLoss", log_input=False, x=(Probabilities((3, 4)), Ints((3, 4), 6)), fixed=(1,)),
    C("GaussianNLLLoss", full=True, x=(N(3, 4), N(3, 4), Probabilities((3, 4)))),
    C("GaussianNLLLoss", reduction="sum", x=(N(3, 4), N(3, 4), Probabilities((3, 1)))),
    C("HingeEmbeddingLoss", 1.2, x=(N(3, 4), Choice((3, 4), (-1.0, 1.0))), fixed=(1,)),
    C("SoftMarginLoss", x=(N(3, 4), Choice((3, 4), (-1.0, 1.0))), fixed=(1,)),
    C("MultiMarginLoss", p=2, margin=0.8, x=(N(4, 5), Ints((4,), 5))),
    C("MultiLabelMarginLoss", x=(N(3, 4), Given([[3, 0, -1, 1], [-1, 2, 0, 1], [1, 2, 3, 0]]))),
    C("MultiLabelMarginLoss", reduction="none", x=(N(2, 5), Given([[4, 1, 2, -1, 0], [0, -1, 3, 2, 1]]))),
    C("MultiLabelSoftMarginLoss", x=(N(4, 5), Choice((4, 5), (0.0, 1.0))), fixed=(1,)),
    C("CosineEmbeddingLoss", margin=0.1, x=(N(4, 3), N(4, 3), Choice((4,), (-1.0, 1.0))), fixed=(2,)),
    C("MarginRankingLoss", margin=0.3, x=(N(5), N(5), Choice((5,), (-1.0, 1.0))), fixed=(2,)),
    C("TripletMarginLoss", x=(N(4, 3), N(4, 3), N(4, 3))),
    C("TripletMarginLoss", margin=2.0, p=3.0, swap=True, reduction="none", x=(N(4, 3), N(4, 3), N(4, 3))),
    C(
        "CTCLoss",
        x=(LogProbabilities((6, 2, 4), 2), Given([[1, 2, 2], [3, 1, 1]]), Given([6, 5]), Given([3, 2])),
    ),
    C(
        "CTCLoss",
        2,
        reduction="sum",
        x=(LogProbabilities((5, 2, 4), 2), Given([1, 3, 0]), Given([5, 4]), Given([1, 2])),
    ),
    C("CTCLoss", reduction="none", x=(LogProbabilities((5, 3), 1), Given([1, 2, 1]), Given(5), Given(3))),
]

DROPOUT = [
    C("Dropout", 0.4, x=N(4, 5)),
    C("Dropout1d", 0.4, x=N(3, 4, 2)),
    C("Dropout2d", 0.4, x=N(2, 3, 2, 2)),
    C("Dropout3d", 0.4, x=N(2, 3, 2, 1, 2)),
    C("AlphaDropout", 0.3, x=N(4, 5)),
    C("FeatureAlphaDropout", 0.3, x=N(3, 4, 2)),
]

PLAIN = [
    *LINEAR, *ACTIVATIONS, *NORMS, *CONVOLUTIONS, *POOLS, *RESAMPLING, *PADDING, *EMBEDDINGS, *RECURRENT,
    *ATTENTION, *LOSSES,
]  # fmt: skip
ALL = [*PLAIN, *DROPOUT]
