"""What a PyTorch file may hold: the table of known globals, storages, and tensors as views of storages.

Enters: names of globals and persistent ids, from `pickle_reader`. Leaves: descriptions; once the storages'
bytes are there, `materialise` turns them into NumPy arrays with their strides, offsets and sharing. Every
number in a description is checked against its storage. Imports no torch; calls nothing a file names.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.arrays import DTYPES, Array, checked_bytes, codes_are_numbers, flat_bytes
from trilobite.framework.checkpoint.pickle_reader import Constructor, fit_key, refused
from trilobite.framework.checkpoint.refusal import shown

MAX_DEPTH = 100
MAX_EXPANDED_VALUES = 20_000_000
MAX_EXPANDED_BYTES = 1 << 32

_STORAGES = {
    **{"BoolStorage": "bool", "ByteStorage": "uint8", "CharStorage": "int8", "ShortStorage": "int16"},
    **{
        "IntStorage": "int32",
        "LongStorage": "int64",
        "HalfStorage": "float16",
        "BFloat16Storage": "bfloat16",
    },
    **{"FloatStorage": "float32", "DoubleStorage": "float64"},
    **{"ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128"},
}
_TORCH_DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


@dataclasses.dataclass(frozen=True)
class StorageType:
    """A storage class as a value: the dtype of its elements."""

    dtype: np.dtype[Any]


@dataclasses.dataclass(frozen=True)
class TypeName:
    """A tensor class as a value; it only says that a tensor is meant."""

    name: str


@dataclasses.dataclass(frozen=True)
class Storage:
    """A run of elements, known by its key; `start` counts elements where it is a view of another's."""

    key: str
    dtype: np.dtype[Any]
    length: int
    start: int = 0


@dataclasses.dataclass(frozen=True)
class TensorView:
    """A tensor, before its storage's bytes are there."""

    storage: Storage
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    conjugate: bool = False
    negative: bool = False


class TorchTable:
    """The globals and storages of one file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.roots: dict[str, tuple[np.dtype[Any], int]] = {}  # key -> dtype and length of the bytes to read
        self._globals = self._known_globals()

    def lookup(self, module: str, name: str) -> Any:
        """A known global; every other one is refused by name."""
        module = {"__builtin__": "builtins", "torch.cuda": "torch"}.get(module, module)
        found = self._globals.get(f"{module}.{name}")
        if found is None:
            raise refused(
                f"the file asks for {module[:200]}.{name[:200]}, which is not needed to hold weights",
                self._where,
            )
        return found

    def _known_globals(self) -> dict[str, Any]:
        builders: dict[str, Callable[[tuple[Any, ...]], Any]] = {
            "collections.OrderedDict": self._ordered_dict,
            "builtins.set": lambda a: set(self._keys(a)),
            "builtins.frozenset": lambda a: frozenset(self._keys(a)),
            "builtins.bytearray": self._bytearray,
            "builtins.complex": self._complex,
            "_codecs.encode": self._latin1,
            "torch.Size": self._size,
            "torch.device": self._device,
            "torch._utils._rebuild_tensor": lambda a: self._tensor(*self._arguments(a, 4, 4)),
            "torch._utils._rebuild_tensor_v2": self._tensor_v2,
            "torch._utils._rebuild_tensor_v3": self._tensor_v3,
            "torch._utils._rebuild_parameter": lambda a: self._parameter(a, 3),
            "torch._utils._rebuild_parameter_with_state": lambda a: self._parameter(a, 4),
            "torch._tensor._rebuild_from_type_v2": self._from_type,
        }
        known: dict[str, Any] = {name: Constructor(name, build) for name, build in builders.items()}
        known |= {f"torch.{name}": StorageType(DTYPES[dtype]) for name, dtype in _STORAGES.items()}
        known |= {
            f"torch.storage.{name}": StorageType(DTYPES["uint8"])
            for name in ("UntypedStorage", "_UntypedStorage")
        }
        known |= {f"torch.{name}": DTYPES[name] for name in _TORCH_DTYPES}
        known |= {
            name: TypeName(name)
            for name in ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter")
        }
        return known

    # -- plain values

    def _refuse(self, what: str) -> FileError:
        return refused(what, self._where)

    def _arguments(self, arguments: tuple[Any, ...], least: int, most: int) -> tuple[Any, ...]:
        if not least <= len(arguments) <= most:
            raise self._refuse(
                f"a constructor is given {len(arguments)} arguments, where it takes {least} to {most}"
            )
        return arguments

    def _ordered_dict(self, arguments: tuple[Any, ...]) -> OrderedDict[Any, Any]:
        found: OrderedDict[Any, Any] = OrderedDict()
        for pairs in self._arguments(arguments, 0, 1):
            if type(pairs) is not list or not all(type(p) in (list, tuple) and len(p) == 2 for p in pairs):
                raise self._refuse("an OrderedDict is made from something else than pairs")
            for key, value in pairs:
                found[fit_key(key, self._where)] = value
        return found

    def _keys(self, arguments: tuple[Any, ...]) -> list[Any]:
        (items,) = self._arguments(arguments, 1, 1)
        if type(items) not in (list, tuple):
            raise self._refuse("a set is made from something else than a list")
        return [fit_key(item, self._where) for item in items]

    def _bytearray(self, arguments: tuple[Any, ...]) -> bytearray:
        (data,) = self._arguments(arguments, 1, 1)
        if type(data) is not bytes:  # an integer would ask for that much memory
            raise self._refuse("a bytearray is made from something else than bytes")
        return bytearray(data)

    def _complex(self, arguments: tuple[Any, ...]) -> complex:
        real, imaginary = self._arguments(arguments, 2, 2)
        if type(real) is not float or type(imaginary) is not float:
            raise self._refuse("a complex number is made from something else than two numbers")
        return complex(real, imaginary)

    def _latin1(self, arguments: tuple[Any, ...]) -> bytes:
        text, encoding = self._arguments(arguments, 2, 2)
        if type(text) is not str or encoding != "latin1" or any(letter > "\xff" for letter in text):
            raise self._refuse("bytes are written in another way than latin1 text")
        return text.encode("latin1")

    def _size(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        (extents,) = self._arguments(arguments, 1, 1)
        return self._extents(extents)

    def _device(self, arguments: tuple[Any, ...]) -> str:
        kind, *index = self._arguments(arguments, 1, 2)
        if type(kind) is not str or not all(type(i) is int for i in index):
            raise self._refuse("a device is named by something else than a string")
        return ":".join([kind, *map(str, index)])

    def _extents(self, value: Any) -> tuple[int, ...]:
        if type(value) not in (tuple, list) or not all(_is_size(extent) for extent in value):
            raise self._refuse("a shape or stride is no tuple of sizes")
        return tuple(value)

    # -- storages and tensors

    def persistent(self, pid: Any) -> Storage:
        """A storage by its id: ('storage', type, key, location, length) and, in old files, a view."""
        if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
            kind = pid[0] if type(pid) is tuple and pid and type(pid[0]) is str else type(pid).__name__
            raise self._refuse(f"the file refers to a {shown(kind)} outside the pickle")
        _, kind, key, location, length, *view = pid
        if (
            type(kind) is not StorageType
            or type(key) is not str
            or type(location) is not str
            or not _is_size(length)
        ):
            raise self._refuse("the description of a storage is malformed")
        if self.roots.setdefault(key, (kind.dtype, length)) != (kind.dtype, length):
            raise self._refuse(f"the storage {shown(key)} is described in two ways")
        return self._storage_view(Storage(key, kind.dtype, length), view[0] if view else None)

    def _storage_view(self, root: Storage, view: Any) -> Storage:
        if view is None:
            return root
        if type(view) is not tuple or len(view) != 3 or not _is_size(view[1]) or not _is_size(view[2]):
            raise self._refuse("the description of a view of a storage is malformed")
        _, start, length = view
        if start + length > root.length:
            raise self._refuse(f"a view reaches beyond the storage {shown(root.key)}")
        return dataclasses.replace(root, start=start, length=length)

    def _tensor_v2(self, arguments: tuple[Any, ...]) -> TensorView:
        storage, offset, shape, strides, _, hooks, *metadata = self._arguments(arguments, 6, 7)
        self._no_hooks(hooks)
        return self._tensor(storage, offset, shape, strides, metadata=metadata[0] if metadata else None)

    def _tensor_v3(self, arguments: tuple[Any, ...]) -> TensorView:
        storage, offset, shape, strides, _, hooks, dtype, *metadata = self._arguments(arguments, 7, 8)
        self._no_hooks(hooks)
        return self._tensor(storage, offset, shape, strides, dtype, metadata[0] if metadata else None)

    def _no_hooks(self, hooks: Any) -> None:
        if hooks is not None and (not isinstance(hooks, dict) or hooks):
            raise self._refuse("a tensor has backward hooks, which are code")

    def _tensor(
        self, storage: Any, offset: Any, shape: Any, strides: Any, dtype: Any = None, metadata: Any = None
    ) -> TensorView:
        if type(storage) is not Storage or not _is_size(offset):
            raise self._refuse("the description of a tensor is malformed")
        dtype = storage.dtype if dtype is None else dtype
        if not isinstance(dtype, np.dtype) or (dtype != storage.dtype and storage.dtype != DTYPES["uint8"]):
            raise self._refuse("a tensor has another dtype than its storage")
        shape, strides = self._extents(shape), self._extents(strides)
        if len(shape) != len(strides):
            raise self._refuse(f"a tensor has {len(shape)} axes but {len(strides)} strides")
        length = storage.length * storage.dtype.itemsize // dtype.itemsize
        last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        if 0 not in shape and last >= length:
            raise self._refuse(
                f"a tensor reaches element {last} of the storage {shown(storage.key)}, which has {length}"
            )
        size = checked_bytes(shape, dtype.itemsize, self._where)
        if size > max(length * dtype.itemsize, MAX_EXPANDED_BYTES):
            raise self._refuse(f"a tensor repeats its storage to {size} bytes")
        conjugate, negative = self._lazy(metadata, dtype)
        return TensorView(storage, dtype, offset, shape, strides, conjugate, negative)

    def _lazy(self, metadata: Any, dtype: np.dtype[Any]) -> tuple[bool, bool]:
        """The two operations that PyTorch may leave pending on a saved tensor."""
        fields = {} if metadata is None else metadata
        if (
            type(fields) is not dict
            or set(fields) - {"conj", "neg"}
            or any(type(x) is not bool for x in fields.values())
        ):
            raise self._refuse("a tensor has metadata other than conj and neg")
        if any(fields.values()) and dtype.kind not in "fc":
            raise self._refuse(f"a tensor of dtype {dtype.name} is marked as conjugated or negated")
        return fields.get("conj", False), fields.get("neg", False)

    def _parameter(self, arguments: tuple[Any, ...], count: int) -> TensorView:
        tensor, _, hooks, *_ = self._arguments(arguments, count, count)
        self._no_hooks(hooks)
        return self._is_tensor(tensor)

    def _from_type(self, arguments: tuple[Any, ...]) -> TensorView:
        """A tensor with attributes of its own: the tensor stays, the attributes are dropped."""
        function, kind, inner, _ = self._arguments(arguments, 4, 4)
        rebuilds = type(function) is Constructor and function.name.startswith("torch._utils._rebuild_")
        if not rebuilds or type(kind) is not TypeName or type(inner) is not tuple:
            raise self._refuse("the description of a tensor is malformed")
        return self._is_tensor(function.build(inner))

    def _is_tensor(self, value: Any) -> TensorView:
        if type(value) is not TensorView:
            raise self._refuse("a parameter is made from something else than a tensor")
        return value


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


class Materialiser:
    """Turns what the pickle described into values, given every storage's elements."""

    def __init__(self, storages: Mapping[str, Array], where: str) -> None:
        self._storages, self._where = storages, where
        self._done: dict[int, tuple[Any, int, int]] = {}
        self._open: set[int] = set()
        self._checked: set[tuple[str, np.dtype[Any]]] = set()

    def value(self, described: Any) -> Any:
        return self._visit(described, 0)[0]

    def _visit(self, item: Any, level: int) -> tuple[Any, int, int]:
        """A value with its size and height as a tree: shared parts count each time they are met, because
        whoever walks the result will meet them so."""
        if isinstance(item, StorageType | TypeName | Constructor | Storage):
            raise refused(f"the file holds a {type(item).__name__} as a value", self._where)
        if not isinstance(item, list | tuple | dict | TensorView):
            return item, 1, 0
        if id(item) in self._done:
            return self._done[id(item)]
        if id(item) in self._open or level > MAX_DEPTH:
            raise refused(f"the file nests values more than {MAX_DEPTH} deep, or in themselves", self._where)
        self._open.add(id(item))
        found = self._array(item) if isinstance(item, TensorView) else self._nest(item, level)
        self._open.discard(id(item))
        if found[1] > MAX_EXPANDED_VALUES or found[2] > MAX_DEPTH:
            raise refused("the file unfolds into too many or too deeply nested values", self._where)
        self._done[id(item)] = found
        return found

    def _nest(self, item: Any, level: int) -> tuple[Any, int, int]:
        children = [
            self._visit(child, level + 1) for child in (item.values() if isinstance(item, dict) else item)
        ]
        values: Any = (child[0] for child in children)
        if isinstance(item, dict):
            values = zip(item, values, strict=True)
        size, height = (
            1 + sum(child[1] for child in children),
            1 + max((child[2] for child in children), default=0),
        )
        return type(item)(values), size, height

    def _array(self, tensor: TensorView) -> tuple[Array, int, int]:
        storage, itemsize = tensor.storage, tensor.dtype.itemsize
        self._check_codes(storage.key, tensor.dtype)
        if 0 in tensor.shape:
            return np.empty(tensor.shape, tensor.dtype), 1, 0
        pairs = zip(tensor.shape, tensor.strides, strict=True)
        strides = [stride * itemsize if extent > 1 else itemsize for extent, stride in pairs]
        offset = storage.start * storage.dtype.itemsize + tensor.offset * itemsize
        buffer = flat_bytes(self._storages[storage.key])
        array: Array = np.ndarray(tensor.shape, tensor.dtype, buffer, offset, strides)
        array.flags.writeable = _is_injective(tensor)
        if tensor.conjugate:
            array = np.conj(array)
        if tensor.negative:
            array = np.negative(array)
        return array, 1, 0

    def _check_codes(self, key: str, dtype: np.dtype[Any]) -> None:
        if (key, dtype) not in self._checked:
            if dtype.name == "bool" and not codes_are_numbers(self._storages[key].view(dtype)):
                raise refused(f"the storage {shown(key)} holds bytes that are no bool", self._where)
            self._checked.add((key, dtype))


def _is_injective(tensor: TensorView) -> bool:
    """Whether no two elements share memory; an expanded tensor is handed out read-only."""
    reach = 0
    for stride, extent in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if extent > 1 and stride <= reach:
            return False
        reach += stride * (extent - 1) if extent > 1 else 0
    return True
