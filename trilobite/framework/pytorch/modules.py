"""Small rooms of PyTorch's that hold a name or two each: overrides, onnx, hub, devices that are not here."""

from __future__ import annotations

import multiprocessing as processes
import re
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlparse

from trilobite.base.dtypes import dtype
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.devices import CPU, device
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.pytorch.symbols import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    ScriptModule,
)
from trilobite.framework.random.generator import Generator
from trilobite.framework.tensor import Tensor
from trilobite.ir.types import dim


class Room:
    """A name with names under it."""

    __path__: tuple[str, ...] = ()  # `import trilobite.onnx.symbolic_helper` looks for rooms under it
    __spec__ = None

    def __init__(self, doc: str, **names: Any) -> None:
        self.__doc__ = doc
        self.__dict__.update(names)


def _never(*args: Any, **kwargs: Any) -> bool:
    return False


def _noted(*args: Any, **kwargs: Any) -> None:
    """Taken and without effect: nobody here would use it."""


def _no_network(url: str = "", *args: Any, **kwargs: Any) -> Any:
    raise ArgumentError(
        f"weights from {url!r}",
        where=user_location(),
        expected="a file: nothing is downloaded",
        remedy="fetch it yourself, then tb.load(path)",
    )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _wrapped(dispatcher: Any, *args: Any, **kwargs: Any) -> Any:
    return lambda fn: fn


def _handled(fn: Any, relevant: Any, *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


overrides = Room(
    "Subclasses that take over functions: there are none.", has_torch_function=_never,
    has_torch_function_unary=_never, has_torch_function_variadic=_never, is_tensor_like=_is_tensor,
    handle_torch_function=_handled, wrap_torch_function=_wrapped, TorchFunctionMode=object,
)  # fmt: skip


def _no_export(*args: Any, **kwargs: Any) -> Any:
    raise ArgumentError(
        "export by PyTorch's tracer",
        where=user_location(),
        expected="tb.inference.export_onnx, or tb.jit(f).lower(x) for what is recorded",
        remedy="trilobite.inference writes ONNX files from modules",
    )


class _Exporter(Room):
    """Rooms of symbols (`symbolic_opset11`, ...) take what packages register for that tracer."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("symbolic_", "_internal")):
            return _Exporter("Symbols of that tracer.")
        if self.__doc__ == "Symbols of that tracer." and not name.startswith("__"):
            return _wrapped
        raise AttributeError(f"tb.onnx has no {name!r}; trilobite.inference writes ONNX files")


onnx = _Exporter(
    "Export through PyTorch's own tracer.", is_in_onnx_export=_never, export=_no_export,
    register_custom_op_symbolic=_noted,
)  # fmt: skip
export = Room("Programs of PyTorch's tracer.", export=_no_export, Dim=dim, ExportedProgram=type(None))


def _none(*args: Any, **kwargs: Any) -> int:
    return 0


def _without(name: str) -> Room:
    """A kind of device that is not here."""
    return Room(
        f"Devices of the kind {name}: there are none.", is_available=_never, device_count=_none,
        is_bf16_supported=_never, is_initialized=_never, synchronize=_noted, empty_cache=_noted,
        manual_seed=_noted, manual_seed_all=_noted, current_accelerator=_noted, memory_allocated=_none,
        max_memory_allocated=_none, current_device=_none, current_device_index=_none,
    )  # fmt: skip


xpu, mps, mtia, accelerator = _without("xpu"), _without("mps"), _without("mtia"), _without("accelerator")
cpu = Room(
    "This processor.", is_available=lambda: True, device_count=lambda: 1, synchronize=_noted,
    current_device=lambda: "cpu",
)  # fmt: skip


class Refusing(Room):
    """A room of PyTorch's whose classes and functions can be named, and refuse to be used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[:1].isupper():
            made: Any = type(name, (_Refused,), {"__doc__": self.__doc__})
        else:
            made = Refusing(self.__doc__ or "")
        setattr(self, name, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise StateError(str(self.__doc__), where=user_location(), remedy="do without it")


class _Refused:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise StateError(
            f"{type(self).__name__}: {type(self).__doc__}", where=user_location(), remedy="do without it"
        )


ao = quantization = Refusing("PyTorch's quantisation, which is not here")
nested = Refusing("PyTorch's nested tensors, which are not here: pad_sequence and a mask")
sparse = Refusing("PyTorch's sparse tensors, which are not here: dense ones, or index_add and scatter_add")
masked = Refusing("PyTorch's masked tensors, which are not here: tb.where and a mask")
package = Refusing("PyTorch's packages, which are not here")


class safe_globals:
    """PyTorch's list of classes that its files may hold: files are read without executing anything here."""

    def __init__(self, safe: Any = ()) -> None:
        pass

    def __enter__(self) -> safe_globals:
        return self

    def __exit__(self, *error: object) -> None:
        pass


serialization = Room(
    "How PyTorch's files are trusted.", safe_globals=safe_globals, add_safe_globals=_noted,
    get_unsafe_globals_in_checkpoint=lambda f: [], get_safe_globals=list, clear_safe_globals=_noted,
    DEFAULT_PROTOCOL=2, MAP_LOCATION=Any,
)  # fmt: skip


def _text_of(x: Tensor, indent: int = 0, *, tensor_contents: str | None = None) -> str:
    return repr(x) if tensor_contents is None else tensor_contents


_tensor_str = Room(
    "How PyTorch prints.", _tensor_str=_text_of, _str=_text_of, _str_intern=_text_of,
    PRINT_OPTS=Room("Settings.", precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None),
)  # fmt: skip


class SobolEngine:
    """Points of a Sobol sequence: there is no table of directions here."""

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        raise ArgumentError(
            "points of a Sobol sequence",
            where=user_location(),
            expected="points drawn independently",
            remedy="tb.rand(n, dimension), or scipy.stats.qmc.Sobol",
        )


futures = Room("Results that are still to come: Python's own.", Future=Future)
quasirandom = Room("Sequences that fill space evenly: none is here.", SobolEngine=SobolEngine)
_custom_ops = Room("Sizes that only a run knows.", get_ctx=_noted)
types = Room(
    "Kinds of arguments.", Number=int | float | bool, Device=Any, _dtype=dtype, _size=tuple, _int=int,
    _float=float, _bool=bool, _device=device, Tensor=Tensor, FileLike=Any, Storage=Any,
)  # fmt: skip


def _of_pythons_own() -> dict[str, Any]:
    return {n: getattr(processes, n) for n in processes.__all__ if hasattr(processes, n)}


multiprocessing = Room(
    "Processes: Python's own.", set_sharing_strategy=_noted, get_sharing_strategy=lambda: "file_system",
    get_all_sharing_strategies=lambda: {"file_system"}, **_of_pythons_own(),
)  # fmt: skip
return_types = Room("Pairs of values and indices.", **{n: Pair for n in ("max", "min", "sort", "topk")})
storage = Room("Memory of tensors.", UntypedStorage=type(None), TypedStorage=type(None))


def _cache_directory() -> str:
    import os

    return os.path.join(os.path.expanduser("~"), ".cache", "trilobite", "hub")


hub = Room(
    "Downloads: refused.", load_state_dict_from_url=_no_network, load=_no_network, get_dir=_cache_directory,
    _get_torch_home=_cache_directory, download_url_to_file=_no_network, urlparse=urlparse,
    HASH_REGEX=re.compile(r"-([a-f0-9]*)\."), set_dir=_noted,
)  # fmt: skip
__config__ = Room("How PyTorch was built.", show=lambda: "", parallel_info=lambda: "")
version = Room("What PyTorch was built with.", cuda=None, hip=None, git_version=None, debug=False)


class _Keys:
    """Names of PyTorch's dispatcher, and sets of them: nothing here looks at them."""

    def __init__(self, *keys: Any) -> None:
        self.keys = keys

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name

    def __or__(self, other: Any) -> _Keys:
        return self

    __and__ = __sub__ = __or__


class _NativePart(Room):
    """Switches of PyTorch's own compilers are taken and do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_jit_", "_debug_", "_set_")):
            return _noted
        raise AttributeError(f"PyTorch's native part is not here: _C.{name}")


_C = _NativePart(
    "PyTorch's native part, which is not here.", _log_api_usage_once=_noted, _get_tracing_state=_noted,
    _disabled_torch_function_impl=_handled,
    _get_privateuse1_backend_name=lambda: "privateuseone", _are_functorch_transforms_active=_never,
    _functorch=Room("Transforms.", is_batchedtensor=_never, is_legacy_batchedtensor=_never),
    Generator=Generator, _get_accelerator=lambda: CPU, DispatchKey=_Keys(), DispatchKeySet=_Keys,
    _ExcludeDispatchKeyGuard=lambda keys: nullcontext(), _nn=Room("Functions of its layers."),
    TensorBase=Tensor, DisableTorchFunctionSubclass=DisableTorchFunctionSubclass,
    DisableTorchFunction=DisableTorchFunction, ScriptModule=ScriptModule, Graph=type(None), Node=type(None),
    Value=type(None),
)  # fmt: skip
