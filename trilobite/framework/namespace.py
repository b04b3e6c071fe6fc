"""What `tb.` offers: names and the objects they stand for.

The operations come from the operator table. Rooms that not every program enters (transforms, jit, nn, optim,
data, files) are named here and imported when they are first used, so that `import trilobite` stays quick.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from trilobite import compiler as lobe
from trilobite.base import dtypes, errors, pytree
from trilobite.framework import heavy, heavy_composites, ops
from trilobite.framework.devices import device
from trilobite.framework.inspection import NamespaceInfo
from trilobite.framework.ops.dtypes import TENSOR_CLASSES
from trilobite.framework.ops.two_meanings import MeaningWarning
from trilobite.framework.pytorch.compiler import COMPILER_NAMES
from trilobite.framework.sizes import Size
from trilobite.framework.tensor import Tensor
from trilobite.ir.types import dim

heavy.install()
heavy_composites.install()
vars(lobe).update(COMPILER_NAMES)  # `tb.compiler` is the lobe; PyTorch's room of that name has these

CONSTANTS: dict[str, Any] = {"e": math.e, "inf": math.inf, "nan": math.nan, "pi": math.pi, "newaxis": None}
DTYPES: dict[str, Any] = {name: dtypes.shown(d) for name, d in dtypes.BY_NAME.items()}
_SHORT = {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
    "short": "int16", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
DTYPES |= {short: DTYPES[name] for short, name in _SHORT.items()}
_MEMORY = (
    "strided contiguous_format preserve_format legacy_contiguous_format channels_last channels_last_3d "
    "sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged"
).split()
OTHERS: dict[str, Any] = {
    **{name: name for name in _MEMORY},  # PyTorch's memory formats: shapes say all that matters here
    **TENSOR_CLASSES,
    "dtype": dtypes.dtype,
    "device": device,
    "Size": Size,
    "layout": str,
    "memory_format": str,
    "MeaningWarning": MeaningWarning,
    "Tensor": Tensor,
    "dim": dim,
    "errors": errors,
    "tree": pytree,
    "__array_namespace_info__": NamespaceInfo,
}

_FOR_PYTORCH = "cuda backends amp autograd utils distributed func functional fx ops library testing profiler"
ROOMS = {
    "nn": "trilobite.framework.nn",
    "optim": "trilobite.framework.optim",
    "data": "trilobite.framework.data",
    "metrics": "trilobite.framework.metrics",
    "logs": "trilobite.framework.logs",
    "random": "trilobite.framework.random",
    "debug": "trilobite.framework.debug",
    "linalg": "trilobite.framework.ops.linalg",
    "fft": "trilobite.framework.ops.fft",
    "quantization": "trilobite.framework.quantization",
    "schedules": "trilobite.compiler.targets.cpu.schedules",
    "zoo": "trilobite.zoo",
    "inference": "trilobite.inference",
    "cluster": "trilobite.cluster",
    **{name: f"trilobite.framework.pytorch.{name}" for name in _FOR_PYTORCH.split()},
    "_dynamo": "trilobite.framework.pytorch.dynamo",
    "_subclasses": "trilobite.framework.pytorch.symbols",
    "_higher_order_ops": "trilobite.framework.pytorch.higher_order",
    "distributions": "trilobite.framework.distributions",
    "special": "trilobite.framework.ops.special",
}


def _rooms(real: str, under: str, names: str) -> dict[str, str]:
    """Several rooms of PyTorch's that are one here."""
    return {f"{under}.{name}": f"trilobite.framework.{real}" for name in names.split()}


INNER_ROOMS = {
    "_higher_order_ops.associative_scan": "trilobite.framework.pytorch.higher_order",
    **_rooms("pytorch.profiler", "autograd", "profiler profiler_util"),
    "jit.annotations": "trilobite.framework.pytorch.annotations",
    "nn.utils.rnn": "trilobite.framework.nn.packing",
    **_rooms("pytorch.utils.data", "utils.data", "dataset dataloader sampler _utils"),
    "utils.data._utils.collate": "trilobite.framework.pytorch.utils.data",
    "_subclasses.fake_tensor": "trilobite.framework.pytorch.symbols",
    "utils.data.distributed": "trilobite.framework.pytorch.utils.sharding",
    **_rooms("pytorch.fx", "fx", "node graph proxy interpreter"),
    **_rooms("pytorch.fx.experimental", "fx.experimental", "symbolic_shapes proxy_tensor"),
    "utils.data._utils.pin_memory": "trilobite.framework.pytorch.utils.data",
    "distributions.wishart": "trilobite.framework.distributions.matrices",
    "distributions.logistic_normal": "trilobite.framework.distributions.matrices",
    "nn.utils.clip_grad": "trilobite.framework.optim.clipping",
    "nn.parallel": "trilobite.framework.nn.wrappers",
    "nn.attention": "trilobite.framework.nn.attention",
    "nn.modules.utils": "trilobite.framework.nn.tuples",
    "nn.modules.activation": "trilobite.framework.nn.layers.activation",
    "nn.modules.batchnorm": "trilobite.framework.nn.layers.normalisation",
    "nn.modules.instancenorm": "trilobite.framework.nn.layers.normalisation",
    "nn.modules.normalization": "trilobite.framework.nn.layers.normalisation",
    "nn.modules.container": "trilobite.framework.nn.containers",
    "nn.modules.conv": "trilobite.framework.nn.layers.convolution",
    "nn.modules.distance": "trilobite.framework.nn.layers.distance",
    "nn.modules.dropout": "trilobite.framework.nn.layers.dropout",
    "nn.modules.flatten": "trilobite.framework.nn.layers.shaping",
    "nn.modules.fold": "trilobite.framework.nn.layers.shaping",
    **_rooms("pytorch.distributed", "distributed", "tensor device_mesh distributed_c10d nn fsdp algorithms"),
    "nn.modules.lazy": "trilobite.framework.nn.lazy",
    "nn.modules.linear": "trilobite.framework.nn.layers.linear",
    "nn.modules.loss": "trilobite.framework.nn.losses",
    "nn.modules.module": "trilobite.framework.nn.module",
    "nn.modules.padding": "trilobite.framework.nn.layers.shaping",
    "nn.modules.pixelshuffle": "trilobite.framework.nn.layers.resampling",
    "nn.modules.pooling": "trilobite.framework.nn.layers.pooling",
    "nn.modules.rnn": "trilobite.framework.nn.layers.recurrent",
    "nn.modules.sparse": "trilobite.framework.nn.layers.embedding",
    "nn.modules.transformer": "trilobite.framework.nn.layers.transformer",
    "nn.modules.upsampling": "trilobite.framework.nn.layers.resampling",
    "distributions.distribution": "trilobite.framework.distributions.base",
    "distributions.utils": "trilobite.framework.distributions.conversions",
    "distributions.kl": "trilobite.framework.distributions.divergence",
    "distributions.transformed_distribution": "trilobite.framework.distributions.transformed",
    **_rooms(
        "distributions.continuous",
        "distributions",
        "normal uniform beta gamma cauchy laplace gumbel log_normal studentT exponential half_normal chi2",
    ),
    **_rooms(
        "distributions.discrete",
        "distributions",
        "categorical bernoulli binomial geometric poisson multinomial one_hot_categorical",
    ),
    **_rooms(
        "distributions.relaxed",
        "distributions",
        "relaxed_bernoulli relaxed_categorical half_cauchy weibull pareto inverse_gamma kumaraswamy "
        "negative_binomial mixture_same_family",
    ),
    **_rooms("distributions.multivariate", "distributions", "multivariate_normal independent dirichlet"),
    "nn.packing": "pad_sequence",
}
"""Rooms inside of rooms under PyTorch's names: `import trilobite.nn.modules.conv`."""
_SMALL_ROOMS = (
    "_custom_ops overrides onnx hub version _C export xpu mps mtia accelerator cpu serialization types "
    "_tensor_str quasirandom futures multiprocessing return_types storage __config__ ao quantization nested "
    "sparse masked package"
)
_BY_ROOM = {
    "pytorch.modules": _SMALL_ROOMS,
    "ops.signals": "stft istft hann_window hamming_window blackman_window bartlett_window kaiser_window",
    "ops.special": "i0 polygamma mvlgamma",
    "ops.low_rank": "svd_lowrank pca_lowrank",
    "ops.pytorch_names": (
        "detach narrow fill flipud fliplr split_with_sizes unsafe_split unsafe_chunk unsafe_split_with_sizes "
        "resolve_conj resolve_neg is_conj is_neg is_inference is_signed is_distributed frexp vander "
        "cumulative_trapezoid gradient nanquantile index_reduce as_strided_scatter triangular_solve "
        "frobenius_norm sym_int sym_float sym_max sym_min sym_not _check _check_value _check_index "
        "_check_type _check_is_size _check_tensor_all _assert_async _shape_as_tensor get_device "
        "empty_permuted is_anomaly_enabled "
        "is_deterministic_algorithms_warn_only_enabled get_autocast_gpu_dtype clear_autocast_cache"
    ),
    "pytorch.symbols": (
        "SymInt SymFloat SymBool Stream Event UntypedStorage ScriptFunction ScriptModule "
        "DisableTorchFunction DisableTorchFunctionSubclass "
        "complex32 chalf qint8 quint8 qint32 quint4x2 quint2x4"
    ),
    "pytorch.amp": "GradScaler",
    "nn.containers": "ModuleDict ParameterDict",
    "nn.functional": (
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d "
        "max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d layer_norm group_norm batch_norm "
        "instance_norm rms_norm dropout alpha_dropout embedding embedding_bag bilinear celu selu prelu rrelu "
        "relu_ celu_ selu_ threshold hardshrink pixel_shuffle pixel_unshuffle channel_shuffle "
        "pairwise_distance cosine_similarity kl_div ctc_loss binary_cross_entropy_with_logits "
        "cosine_embedding_loss "
        "hinge_embedding_loss margin_ranking_loss triplet_margin_loss poisson_nll_loss pdist"
    ),
    "pytorch.settings": (
        "set_default_dtype get_default_dtype set_num_threads get_num_threads set_num_interop_threads "
        "get_num_interop_threads set_printoptions use_deterministic_algorithms set_flush_denormal "
        "are_deterministic_algorithms_enabled set_float32_matmul_precision get_float32_matmul_precision "
        "set_default_device get_default_device is_tensor is_storage is_autocast_enabled "
        "get_autocast_dtype is_autocast_cpu_enabled get_autocast_cpu_dtype compile _assert typename "
        "set_default_tensor_type set_warn_always get_rng_state set_rng_state initial_seed seed Generator "
        "default_generator"
    ),
    "transforms": "grad value_and_grad vjp jvp",
    "linear_maps": "linearize linear_transpose",
    "mapping": "vmap",
    "modes": (
        "stop_gradient no_grad enable_grad is_grad_enabled inference_mode set_grad_enabled "
        "is_inference_mode_enabled"
    ),
    "jit": "jit make_graph eval_shape",
    "control": "cond switch while_loop scan fori_loop associative_scan",
    "rules": "custom_vjp custom_jvp",
    "function_class": "Function",
    "custom_op": "custom_op TensorType",
    "checkpointing": "checkpoint",
    "jacobians": "jacfwd jacrev hessian",
    "autocast": "autocast",
    "random": "manual_seed",
    "random.calls": (
        "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson "
        "binomial"
    ),
    "fit": "fit EarlyStopping",
    "quantization": "quantize",
    "nn": "functional_call",
    "checkpoint": ("Checkpointer save load load_pth save_safetensors load_safetensors save_npz load_npz"),
}
OBJECTS = frozenset({"jit", *_SMALL_ROOMS.split()})
"""What `import trilobite.NAME` finds though it is no module: objects with names under them."""
LATER = {name: f"trilobite.framework.{room}" for room, names in _BY_ROOM.items() for name in names.split()}
"""Names and the room each comes from."""


def names() -> dict[str, Any]:
    """Everything that is there as soon as the framework is."""
    table = {row.name: row.public for row in ops.operators.values() if "." not in row.name}
    return {**table, **CONSTANTS, **DTYPES, **OTHERS}


def later(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name == "torch":  # PyTorch is an attribute of itself, and some sources say torch.torch
        return importlib.import_module("trilobite")
    if name in ROOMS:
        return importlib.import_module(ROOMS[name])
    if name in LATER:
        found = getattr(importlib.import_module(LATER[name]), name)
        return _with_marks(found) if name == "jit" else found
    if (found := _derived(name)) is not None:
        return found
    raise AttributeError(f"trilobite has no {name!r}{_hint(name)}")


def _derived(name: str) -> Any:
    """What PyTorch names after something else: `tb.exp_(x)`, `tb.view_copy(x)`, `tb._foreach_add(...)`."""
    if name.startswith("_foreach_"):
        return importlib.import_module("trilobite.framework.ops.pytorch_names").foreach(name)
    if name.endswith("_") and not name.startswith("_") and callable(getattr(Tensor, name, None)):
        return getattr(Tensor, name)
    of = name.removesuffix("_copy")
    if of != name and callable(getattr(Tensor, of, None)):
        return lambda x, *args, **kwargs: _cloned(getattr(x, of)(*args, **kwargs))
    return None


def _cloned(out: Any) -> Any:
    return tuple(t.clone() for t in out) if isinstance(out, tuple) else out.clone()


def _with_marks(jit: Any) -> Any:
    """`tb.jit` with the names that PyTorch's module `jit` has: `tb.jit.is_scripting()`, `@tb.jit.ignore`."""
    from trilobite.framework.pytorch.compiler import JIT_NAMES

    for name, value in JIT_NAMES.items():
        setattr(jit, name, value)
    jit.__path__ = []  # `import trilobite.jit.annotations` looks for rooms under it
    jit.__name__ = "trilobite.jit"  # `from trilobite.jit import x` looks for a room of that name last
    return jit


_MEANT = {
    "ndarray": "Tensor", "array": "asarray", "float": "float32", "shape": "Tensor.shape", "lax": "scan",
    "numpy": "asarray", "pmap": "vmap", "device_put": "asarray", "block_until_ready": "jit", "odeint": "scan",
     "sparse_coo_tensor": "tensor",
    "quantize_per_tensor": "int8",  "fill_diagonal": "eye",
    "interp": "searchsorted", "percentile": "quantile", "average": "mean", "ptp": "aminmax",
    "convolve": "conv1d",
}  # fmt: skip
"""What others call otherwise, and where it is here: a slip of the keys is found by spelling alone."""


def _hint(name: str) -> str:
    """What is meant, if another library's name for it is known; else the name that differs by a slip."""
    known = [n for n in (*names(), *ROOMS, *LATER) if not n.startswith("_")]
    meant = _MEANT.get(name)
    if meant is None:
        import difflib

        # Only a slip of the keys: what is spelled half alike (device, divide) means something else.
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        meant = near[0] if near else None
    return f"; did you mean tb.{meant}?" if meant else ""
