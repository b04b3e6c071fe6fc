"""Data from outside as tensors: Python numbers and lists, NumPy arrays, DLPack; and back again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType, as_dtype
from trilobite.base.errors import ArgumentError, DeviceError, DTypeError, GradientError
from trilobite.base.locations import user_location
from trilobite.base.quiet import quiet
from trilobite.framework.devices import check_device
from trilobite.framework.ops.registry import copy_value, method, tensor_op
from trilobite.framework.sizes import Size
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.bind import Traced

G = "creation"
_DEFAULTS = {"f": "default_float", "i": "default_int", "c": "default_complex"}


def to_array(data: Any, dtype: Any = None, copy: bool | None = None) -> Value:
    """Data as an array: Python floats become float32, ints int64; arrays keep their dtype."""
    want = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        value = data.detach()._read()
        if want is None or want == value.dtype:
            return copy_value(value) if copy else value
        return table["cast"](value, dtype=want)
    if not isinstance(data, (np.ndarray, np.generic)):
        data = _from_python(data, want)
    if want is None:
        want = as_dtype(data.dtype)
    out = _in_dtype(data, want, copy)
    if out is data or out.base is not None:
        cells.expose(out)
    return out


@quiet
def _in_dtype(data: Any, dtype: DType, copy: bool | None) -> np.ndarray[Any, Any]:
    return np.array(data, dtype=dtype) if copy else np.asarray(data, dtype=dtype)


def _from_python(data: Any, want: DType | None) -> np.ndarray[Any, Any]:
    if hasattr(data, "__array__"):
        return np.asarray(data)
    if isinstance(data, (list, tuple)):
        data = _plain(data)
    found = _numbers(data)
    kind = found.dtype.kind
    if want is None and kind in "uO":  # Python integers beyond int64
        want = dt.default_int
    if want is not None:
        return _exact(found, want) if kind in "iuO" and want in dt.INTEGERS else found
    default = getattr(dt, _DEFAULTS[kind]) if kind in _DEFAULTS else None
    empty = found.size == 0 and found.dtype == np.float64
    return _in_dtype(found, dt.default_float if empty else default, False) if default is not None else found


def _numbers(data: Any) -> np.ndarray[Any, Any]:
    """Python data as NumPy sees it, except that integers too large for int64 stay integers."""
    try:
        found = np.asarray(data)
        large = found.dtype.kind == "f" and found.size > 0 and bool(np.abs(found).max() >= 2.0**63)
        whole = np.asarray(data, object) if large else found
    except ValueError:
        raise _no_tensor(f"{type(data).__name__} with rows of different lengths") from None
    if large and all(isinstance(v, int) for v in whole.reshape(-1)):
        return whole
    if found.dtype.kind in "SUmM" or not all(
        isinstance(v, int) for v in found.reshape(-1) if found.dtype.kind == "O"
    ):
        raise _no_tensor(f"{type(data).__name__} of {found.dtype}")
    return found


def _exact(found: np.ndarray[Any, Any], want: DType) -> np.ndarray[Any, Any]:
    """Integers for an integer dtype: what does not fit is an error."""
    from trilobite.framework.ops.dtypes import iinfo

    info = iinfo(want)
    flat = found.reshape(-1).tolist()
    outside = [v for v in flat if not info.min <= v <= info.max]
    if outside:
        raise _Overflow(
            f"the number {outside[0]} does not fit into {want}",
            where=user_location(),
            expected=f"{info.min} <= number <= {info.max}",
        )
    return np.asarray(flat, np.uint64 if info.min == 0 else np.int64).reshape(found.shape)


class _Overflow(ArgumentError, OverflowError):
    """A Python integer that a dtype cannot hold."""


class _NoTensor(ArgumentError, TypeError):
    """Data that is no array of numbers."""


def _no_tensor(why: str) -> ArgumentError:
    return _NoTensor(
        f"the data does not form a tensor: {why}",
        where=user_location(),
        expected="numbers, or nested lists of equal lengths",
        remedy="pad rows to one length, and turn words into numbers (tb.data.Vocabulary)",
    )


def _plain(data: Sequence[Any]) -> list[Any]:
    return [
        d.detach().numpy() if isinstance(d, Tensor) else _plain(d) if isinstance(d, (list, tuple)) else d
        for d in data
    ]


def legacy_array(data: tuple[Any, ...], dtype: Any, device: Any) -> Value:
    """What PyTorch's Tensor(...) makes: sizes become zeros, data a copy in the default float dtype."""
    check_device(device)
    want = dt.default_float if dtype is None else as_dtype(dtype)
    if all(isinstance(d, (int, np.integer)) and not isinstance(d, bool) for d in data):
        return np.zeros(data or (0,), want)
    if len(data) == 1 and type(data[0]) is Size:
        return np.zeros(data[0], want)
    if len(data) != 1:
        raise _no_tensor(f"{len(data)} arguments that are no sizes")
    return to_array(data[0], want, copy=True)


@tensor_op(G, methods=())
def tensor(
    data: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None, pin_memory: bool = False
) -> Tensor:
    """A tensor with a copy of the data."""
    check_device(device)
    out = wrap(to_array(data, dtype, copy=True))
    return out.requires_grad_() if requires_grad else out


@tensor_op(G, methods=())
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """The data as a tensor. Without `copy`, a tensor stays the one it is and an array shares its memory; a
    read-only array is copied, since a tensor may be written to.
    """
    check_device(device)
    if isinstance(obj, Tensor):
        return _again(obj, dtype, copy)
    if _has_tensors(obj):
        return _nest(obj, dtype, copy)
    source = obj if isinstance(obj, np.ndarray) else None
    sealed = source is not None and not source.flags.writeable
    if sealed and copy is False:
        raise ArgumentError(
            "asarray(copy=False) of a read-only NumPy array", where=user_location(),
            expected="an array that may be written to: a tensor may be",
            remedy="leave copy out, which copies it, or a.setflags(write=True) if it is yours",
        )  # fmt: skip
    out = to_array(obj, dtype, copy=bool(copy) or sealed)
    if (
        copy is False
        and (source is None or not np.may_share_memory(out, source))
        and not isinstance(obj, (int, float, complex))
    ):
        raise ArgumentError(
            "asarray(copy=False) of data that has to be copied", where=user_location(),
            expected="an array or tensor of that dtype", remedy="leave copy out",
        )  # fmt: skip
    if source is not None and np.may_share_memory(out, source):
        cells.share_memory(out)
    return wrap(out)


@tensor_op(G, methods=())
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor: `asarray` as PyTorch calls it."""
    return asarray(data, dtype=dtype, device=device)


def _again(x: Tensor, dtype: Any, copy: bool | None) -> Tensor:
    if dtype is not None and as_dtype(dtype) != x.dtype:
        if copy is False:
            raise ArgumentError(
                f"asarray(copy=False) from {x.dtype} to {as_dtype(dtype)}",
                where=user_location(),
                expected="the dtype it has",
                remedy="leave copy out",
            )
        return wrap(table["cast"](x._read(), dtype=as_dtype(dtype)))
    return wrap(copy_value(x._read())) if copy else x


def _has_tensors(obj: Any) -> bool:
    return isinstance(obj, (list, tuple)) and any(
        isinstance(o, Tensor) or (isinstance(o, (list, tuple)) and _has_tensors(o)) for o in obj
    )


def _nest(obj: Sequence[Any], dtype: Any, copy: bool | None) -> Tensor:
    """A list with tensors in it is stacked, so that it may hold traced ones."""
    from trilobite.framework.ops.joining import stack

    out = wrap(stack([asarray(o)._read() for o in obj]))
    return out if dtype is None else _again(out, dtype, None)


@tensor_op(G, methods=())
def from_numpy(array: np.ndarray[Any, Any], /) -> Tensor:
    """A tensor on the memory of a NumPy array; of a read-only one, on a copy."""
    return asarray(array, copy=False if array.flags.writeable else None)


# -- DLPack ----------------------------------------------------------------------------------------------

_CPU = 1  # kDLCPU, as the DLPack standard numbers devices


@tensor_op(G, methods=())
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array (a copy of it, if asked for)."""
    check_device(device)
    if not hasattr(x, "__dlpack__"):
        raise _NoTensor(
            f"from_dlpack of {type(x).__name__}",
            where=user_location(),
            expected="an object with __dlpack__",
            remedy="tb.asarray takes numbers, lists and arrays",
        )
    if isinstance(x, Tensor):
        return wrap(copy_value(x.detach()._read())) if copy else x.detach()
    try:
        out = np.from_dlpack(x, copy=copy)
        cells.share_memory(out)
        return wrap(out)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DTypeError(
            f"this array cannot come over DLPack: {error}",
            where=user_location(),
            expected="an array in main memory of integers, bools, floats of 16 to 64 bits or complex numbers",
            remedy="view other floats as integers of their width first, then x.view(dtype) here",
        ) from None


@method("__dlpack__")
def dlpack(
    x: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """A DLPack capsule of the tensor's memory."""
    value = x._read()
    if isinstance(value, Traced):
        if x.requires_grad:
            raise GradientError(
                "DLPack of a tensor that requires a gradient would lose its history",
                where=user_location(),
                remedy="x.detach()",
            )
        x.numpy()  # says why there is no memory yet
    if stream is not None:
        raise DeviceError(f"__dlpack__(stream={stream!r}) of a tensor on the CPU", expected="no stream")
    if value.dtype.kind not in "biufc" or value.dtype.isbuiltin != 1:
        raise _NoExport(
            f"DLPack of {value.dtype}", where=user_location(), expected="a dtype that NumPy has itself",
            remedy="x.view(dtype) as integers of the same width, or x.astype(tb.float32)",
        )  # fmt: skip
    if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != (_CPU, 0):
        raise _NoExport(
            f"__dlpack__(dl_device={dl_device})", where=user_location(), expected=f"({_CPU}, 0), the CPU"
        )
    if copy or not value.flags.writeable:
        value = value.copy()
    cells.expose(value)
    return value.__dlpack__(max_version=max_version)


__all__ = ["check_device"]  # where callers have always found it


class _NoExport(DTypeError, BufferError):
    """Memory that DLPack has no words for."""


@method("__dlpack_device__")
def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Where the memory is, as DLPack says it: the CPU."""
    return _CPU, 0


@method("to_device")
def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device: there is one, the CPU."""
    check_device(device)
    if stream is not None:
        raise DeviceError(
            f"to_device(stream={stream!r})", where=user_location(), expected="no stream: the CPU has none"
        )
    return x


@method("cpu", "pin_memory", "share_memory_", "resolve_conj", "resolve_neg", "to_dense", "coalesce")
def cpu(x: Tensor, *settings: Any, **named: Any) -> Tensor:
    """The tensor itself: it is in main memory, dense, and keeps no promise for later."""
    return x


@method("cuda")
def cuda(x: Tensor, device: Any = "cuda", **named: Any) -> Tensor:
    """There is no GPU: an error that says what there is."""
    check_device("cuda" if device is None else device)
    return x
