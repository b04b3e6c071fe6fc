"""Graph-models of TensorFlow.js: the JSON form of a GraphDef, whose constants are arrays of the manifest.

Enters: the text of a model.json and its arrays. Leaves: a ModelProto. Attributes are written as the protocol
buffers that they stand for, so that operations have one reader. Does not know what operations mean.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.mapped import Array
from trilobite.inference.formats.tensorflow.convert import from_nodes
from trilobite.inference.formats.tensorflow.graph import Node, made, ordered
from trilobite.inference.formats.wire import Message

_TYPES = (
    "DT_INVALID DT_FLOAT DT_DOUBLE DT_INT32 DT_UINT8 DT_INT16 DT_INT8 DT_STRING DT_COMPLEX64 DT_INT64 "
    "DT_BOOL DT_QINT8 DT_QUINT8 DT_QINT32 DT_BFLOAT16 DT_QINT16 DT_QUINT16 DT_UINT16 DT_COMPLEX128 DT_HALF "
    "DT_RESOURCE DT_VARIANT DT_UINT32 DT_UINT64"
).split()


def convert(
    text: dict[str, Any],
    arrays: Mapping[str, Array],
    where: str,
    outputs: Sequence[str] | None,
    constants: Mapping[str, Any] | None,
) -> Any:
    """`outputs`: those of the signature, where nobody says others."""
    try:
        nodes = {n.name: n for n in map(_node, text["modelTopology"]["node"])}
        wanted = _signed(text) if outputs is None else outputs
    except FileError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
        struct.error,
    ) as error:
        raise corrupt(f"the graph is malformed: {shown(str(error))}", where, "a GraphDef as JSON") from error
    for n in nodes.values():
        if n.op == "Const" and n.name not in arrays:
            raise corrupt(f"the constant {shown(n.name)} has no numbers", where, "an array of that name")
    return from_nodes(ordered(nodes, where), where, "TensorFlow.js", wanted or None, constants, arrays)


def _node(row: dict[str, Any]) -> Node:
    attributes = {name: Message(memoryview(_value(v)), "") for name, v in row.get("attr", {}).items()}
    if not row["op"]:
        raise ValueError("a node without an operation")
    return made(str(row["name"]), str(row["op"]), [str(i) for i in row.get("input", [])], attributes)


def _signed(text: dict[str, Any]) -> list[str]:
    """Names of the nodes that the signature calls outputs."""
    signature = text.get("signature") or (text.get("userDefinedMetadata") or {}).get("signature") or {}
    names = [str(o["name"]).removesuffix(":0") for o in (signature.get("outputs") or {}).values()]
    return list(dict.fromkeys(names))


# -- protocol buffers ----------------------------------------------------------------------------------------


def _varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _long(number: int, raw: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _short(number: int, value: Any) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _text(value: Any) -> bytes:
    """Base64, or the codes of the letters one by one."""
    return bytes(value) if isinstance(value, list) else base64.b64decode(value, validate=True)


def _type(value: Any) -> int:
    return _TYPES.index(value) if isinstance(value, str) else int(value)


def _shape(value: dict[str, Any]) -> bytes:
    sizes = [_long(2, _short(1, d.get("size", 0))) for d in value.get("dim", [])]
    return b"".join([*sizes, _short(3, bool(value.get("unknownRank")))])


_FIELDS: dict[str, Callable[[Any], bytes]] = {
    "s": lambda v: _long(2, _text(v)),
    "i": lambda v: _short(3, v),
    "f": lambda v: _varint(4 << 3 | 5) + struct.pack("<f", float(v)),
    "b": lambda v: _short(5, bool(v)),
    "type": lambda v: _short(6, _type(v)),
    "shape": lambda v: _long(7, _shape(v)),
}


def _value(value: dict[str, Any]) -> bytes:
    """An attribute; what is a tensor or a function is left out."""
    out = [write(value[k]) for k, write in _FIELDS.items() if k in value]
    if "list" in value:
        rows = [_FIELDS[k](v) for k, many in value["list"].items() if k in _FIELDS for v in many]
        out.append(_long(1, b"".join(rows)))
    return b"".join(out)
