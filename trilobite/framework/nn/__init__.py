"""Networks: `tb.nn`. Modules, layers, losses, initialisers; functions without state in `tb.nn.functional`.

Enters: tensors. Leaves: tensors, and trees of parameters. May import `framework` and `ir`; a module holds
state in cells and knows nothing of compilers. Read `module.py` first, then `layers/linear.py`.
"""

from trilobite.framework.nn import functional, init
from trilobite.framework.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from trilobite.framework.nn.layers.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from trilobite.framework.nn.layers.adaptive_softmax import AdaptiveLogSoftmaxWithLoss
from trilobite.framework.nn.layers.attention import MultiheadAttention, RotaryEmbedding
from trilobite.framework.nn.layers.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from trilobite.framework.nn.layers.distance import CosineSimilarity, PairwiseDistance
from trilobite.framework.nn.layers.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from trilobite.framework.nn.layers.embedding import Embedding, EmbeddingBag
from trilobite.framework.nn.layers.linear import Bilinear, Identity, Linear
from trilobite.framework.nn.layers.normalisation import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    CrossMapLRN2d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
    SyncBatchNorm,
)
from trilobite.framework.nn.layers.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from trilobite.framework.nn.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LSTMCell,
    RNNBase,
    RNNCell,
    RNNCellBase,
)
from trilobite.framework.nn.layers.resampling import (
    ChannelShuffle,
    PixelShuffle,
    PixelUnshuffle,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)
from trilobite.framework.nn.layers.shaping import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    Flatten,
    Fold,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    Unflatten,
    Unfold,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from trilobite.framework.nn.layers.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from trilobite.framework.nn.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Buffer, Parameter
from trilobite.framework.nn.skeleton import functional_call
from trilobite.framework.nn.wrappers import DataParallel

_LATER = {
    "modules": "trilobite.framework.nn.modules",
    "utils": "trilobite.framework.nn.utils",
    "parallel": "trilobite.framework.nn.wrappers",
    "attention": "trilobite.framework.nn.attention",
}
_LAZY = frozenset(
    f"{kind}{n}d"
    for kind in ("LazyConv", "LazyConvTranspose", "LazyBatchNorm", "LazyInstanceNorm")
    for n in (1, 2, 3)
) | {"LazyLinear", "UninitializedParameter", "UninitializedBuffer"}


def __getattr__(name: str) -> object:
    """Rooms that not every network enters."""
    if name in _LATER:
        import importlib

        return importlib.import_module(_LATER[name])
    if name in _LAZY:
        from trilobite.framework.nn import lazy

        return getattr(lazy, name)
    raise AttributeError(f"trilobite.nn has no {name!r}{_near(name)}")


def _near(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, __all__, n=1, cutoff=0.75)
    return f"; did you mean nn.{near[0]}?" if near else ""


__all__ = [
    "functional", "init", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential", "CELU",
    "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "RReLU", "Sigmoid", "SiLU", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
    "MultiheadAttention", "RotaryEmbedding", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "CosineSimilarity", "PairwiseDistance", "AlphaDropout", "Dropout",
    "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "Embedding", "EmbeddingBag", "Bilinear",
    "Identity", "Linear", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm", "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d",
    "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "GRU", "LSTM", "RNN", "GRUCell", "LSTMCell",
    "RNNCell", "ChannelShuffle", "PixelShuffle", "PixelUnshuffle", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Flatten", "Fold", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unflatten", "Unfold",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer", "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss",
    "CrossEntropyLoss", "CTCLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss",
    "L1Loss", "MarginRankingLoss", "MSELoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
    "Module", "Parameter", "functional_call", "Buffer", "DataParallel", "SyncBatchNorm", "RNNBase",
    "RNNCellBase", "AdaptiveLogSoftmaxWithLoss", "CrossMapLRN2d", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "MultiLabelMarginLoss",
]  # fmt: skip
