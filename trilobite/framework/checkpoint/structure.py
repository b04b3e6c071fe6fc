"""Trees as JSON: the shape of a nest with its scalars, and the place of every array.

Enters: a pytree of arrays, Python scalars, strings, bytes and None. Leaves: JSON that keeps every scalar
exact, and the arrays by name; and back to dict, list and tuple with a `Slot` where an array belongs. Does not
read or write files. Classes cannot be rebuilt from data: a namedtuple comes back as a tuple, a dataclass as a
dict, unless `matching` is given an example.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework.checkpoint.arrays import DTYPES, NAMES, Array, as_array, checked_bytes
from trilobite.framework.checkpoint.refusal import corrupt, shown

MAX_DEPTH = 100
_EXACT_INT = 2**53  # beyond it other JSON readers round


class Slot(NamedTuple):
    """Where an array belongs, and what it must be."""

    array: str
    dtype: str
    shape: tuple[int, ...]


class Container(NamedTuple):
    """A nest taken apart: `kind` is dict, ordered, list or tuple; `rebuild` makes its like from other
    children."""

    kind: str
    keys: Sequence[Any]
    children: Sequence[Any]
    rebuild: Callable[[Sequence[Any]], Any]


def is_array(value: Any) -> bool:
    return hasattr(type(value), "__array__")


def container(value: Any) -> Container | None:
    """How a value is taken apart, or None if it is a leaf."""
    cls = type(value)
    if cls in (list, tuple):
        return Container(cls.__name__, range(len(value)), value, cls)
    if cls in (dict, OrderedDict):
        keys = list(value)
        kind = "dict" if cls is dict else "ordered"
        return Container(kind, keys, list(value.values()), lambda c: cls(zip(keys, c, strict=True)))
    if value is None or is_array(value) or (rule := pytree.node_of(value)) is None:
        return None
    children, static = rule.flatten(value)
    return _registered(value, list(children), static, lambda c: rule.unflatten(static, c))


def _registered(
    value: Any, children: list[Any], static: Any, rebuild: Callable[[Sequence[Any]], Any]
) -> Container:
    if isinstance(value, tuple):
        return Container("tuple", range(len(children)), children, rebuild)
    keys: Any = static
    if dataclasses.is_dataclass(value):
        keys = [field.name for field in dataclasses.fields(value)]
    if (
        isinstance(keys, list | tuple)
        and len(keys) == len(children)
        and all(type(key) is str for key in keys)
    ):
        return Container("dict", list(keys), children, rebuild)
    return Container("list", range(len(children)), children, rebuild)


def place(path: Sequence[Any]) -> str:
    """A path as people write it: `model.layers.0.weight`."""
    return ".".join(key if type(key) is str else repr(key) for key in path) or "the tree itself"


# ---- to JSON
# -------------------------------------------------------------------------------------------------------


class Encoder:
    """Collects the arrays of trees while turning them into JSON. An array met twice is stored once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._slots: dict[int, dict[str, Any]] = {}
        self._kept: list[Any] = []  # an id is only unique while its object lives

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        if len(path) > MAX_DEPTH:
            raise ArgumentError(
                f"the tree is nested more than {MAX_DEPTH} deep",
                where=place(path[:8]) + "...",
                expected="a tree that does not contain itself",
                remedy="flatten it before saving",
            )
        if is_array(value):
            return self._array(value, path)
        nest = container(value)
        if nest is None:
            return encode_scalar(value, path)
        pairs = zip(nest.keys, nest.children, strict=True)
        children = [(key, self.encode(child, (*path, key))) for key, child in pairs]
        return _encode_nest(nest.kind, children, path)

    def _array(self, value: Any, path: tuple[Any, ...]) -> dict[str, Any]:
        if id(value) not in self._slots:
            array = as_array(value, place(path))
            name = self._fresh_name(path)
            self.arrays[name] = array
            self._kept.append(value)
            self._slots[id(value)] = {"array": name, "dtype": NAMES[array.dtype], "shape": list(array.shape)}
        return self._slots[id(value)]

    def _fresh_name(self, path: tuple[Any, ...]) -> str:
        # Lone surrogates are legal in Python strings but in no file.
        base = name = place(path).encode("utf-8", "backslashreplace").decode() if path else "array"
        count = 1
        while name in self.arrays or name == "__metadata__":
            count += 1
            name = f"{base}#{count}"
        return name


def _encode_nest(kind: str, children: list[tuple[Any, Any]], path: tuple[Any, ...]) -> Any:
    if kind == "list":
        return [child for _, child in children]
    if kind == "tuple":
        return {"tuple": [child for _, child in children]}
    if all(type(key) is str for key, _ in children):
        return {kind: dict(children)}
    return {f"{kind}_items": [[_encode_key(key, path), child] for key, child in children]}


def _encode_key(key: Any, path: tuple[Any, ...]) -> Any:
    if type(key) is tuple:
        return {"tuple": [_encode_key(part, path) for part in key]}
    return encode_scalar(key, (*path, key))


def encode_scalar(value: Any, path: tuple[Any, ...]) -> Any:
    """A Python scalar as JSON that gives exactly it back."""
    cls = type(value)
    if value is None or cls in (bool, str):
        return value
    if cls is int:
        return value if abs(value) <= _EXACT_INT else {"int": hex(value)}
    if cls is float:
        return value if math.isfinite(value) else {"float": _bits(value)}
    if cls is complex:
        return {"complex": [_bits(value.real), _bits(value.imag)]}
    if cls is bytes:
        return {"bytes": base64.b64encode(value).decode("ascii")}
    raise ArgumentError(
        f"a {cls.__module__}.{cls.__qualname__} cannot be saved",
        where=place(path),
        expected="arrays, numbers, strings, bytes, bools, None, and dict, list or tuple of them",
        remedy="save its state as such values",
    )


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()


# ---- from JSON
# -----------------------------------------------------------------------------------------------------


def decode(data: Any, where: str) -> Any:
    """The nest that `Encoder.encode` described, with a `Slot` for every array."""
    return _decode(data, where, 0)


def _decode(data: Any, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise corrupt("the tree is nested too deeply", where, f"at most {MAX_DEPTH} levels")
    if data is None or type(data) in (bool, int, float, str):
        return data
    if type(data) is list:
        return [_decode(child, where, depth + 1) for child in data]
    if type(data) is dict and set(data) == {"array", "dtype", "shape"}:
        return _decode_slot(data, where)
    if type(data) is dict and len(data) == 1:
        tag, body = next(iter(data.items()))
        if tag in _DECODERS:
            return _DECODERS[tag](body, where, depth)
    raise _malformed(data, where)


def _malformed(data: Any, where: str) -> FileError:
    return corrupt(f"the tree holds {repr(data)[:120]}", where, "the manifest's own notation for trees")


def _decode_slot(data: dict[str, Any], where: str) -> Slot:
    name, dtype, shape = data["array"], data["dtype"], data["shape"]
    if type(name) is not str or type(dtype) is not str or dtype not in DTYPES or type(shape) is not list:
        raise _malformed(data, where)
    checked_bytes(shape, DTYPES[dtype].itemsize, f"{where}, array {shown(name)}")
    return Slot(name, dtype, tuple(shape))


def _decode_tuple(body: Any, where: str, depth: int) -> tuple[Any, ...]:
    if type(body) is not list:
        raise _malformed(body, where)
    return tuple(_decode(child, where, depth + 1) for child in body)


def _decode_dict(body: Any, where: str, depth: int) -> dict[str, Any]:
    if type(body) is not dict:
        raise _malformed(body, where)
    return {key: _decode(child, where, depth + 1) for key, child in body.items()}


def _decode_items(body: Any, where: str, depth: int) -> dict[Any, Any]:
    if type(body) is not list or not all(type(pair) is list and len(pair) == 2 for pair in body):
        raise _malformed(body, where)
    found: dict[Any, Any] = {}
    for key_data, child in body:
        key = _decode(key_data, where, depth + 1)
        if not is_key(key) or key in found:
            raise _malformed({"key": key_data}, where)
        found[key] = _decode(child, where, depth + 1)
    return found


def is_key(value: Any) -> bool:
    """Whether a value may be a dict key: a scalar, or a tuple of keys."""
    if type(value) is tuple:
        return all(is_key(part) for part in value)
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def _decode_int(body: Any, where: str, depth: int) -> int:
    if type(body) is not str or re.fullmatch("-?0x[0-9a-f]+", body) is None:
        raise _malformed({"int": body}, where)
    return int(body, 16)


def _decode_float(body: Any, where: str, depth: int) -> float:
    if type(body) is not str or re.fullmatch("[0-9a-f]{16}", body) is None:
        raise _malformed({"float": body}, where)
    value: float = struct.unpack(">d", bytes.fromhex(body))[0]
    return value


def _decode_complex(body: Any, where: str, depth: int) -> complex:
    if type(body) is not list or len(body) != 2:
        raise _malformed({"complex": body}, where)
    return complex(_decode_float(body[0], where, depth), _decode_float(body[1], where, depth))


def _decode_bytes(body: Any, where: str, depth: int) -> bytes:
    if type(body) is not str:
        raise _malformed({"bytes": body}, where)
    try:
        return base64.b64decode(body.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise _malformed({"bytes": body}, where) from None


_DECODERS: dict[str, Callable[[Any, str, int], Any]] = {
    "dict": _decode_dict,
    "dict_items": _decode_items,
    "ordered": lambda *a: OrderedDict(_decode_dict(*a)),
    "ordered_items": lambda *a: OrderedDict(_decode_items(*a)),
    "tuple": _decode_tuple,
    "int": _decode_int,
    "float": _decode_float,
    "complex": _decode_complex,
    "bytes": _decode_bytes,
}


# ---- slots and arrays ----


def slots(nest: Any) -> Iterator[Slot]:
    """Every `Slot` of a decoded nest."""
    if type(nest) is Slot:
        yield nest
    elif (parts := container(nest)) is not None:
        for child in parts.children:
            yield from slots(child)


def fill(nest: Any, arrays: dict[str, Array]) -> Any:
    """A decoded nest with its arrays in their slots."""
    if type(nest) is Slot:
        return arrays[nest.array]
    parts = container(nest)
    return nest if parts is None else parts.rebuild([fill(child, arrays) for child in parts.children])
