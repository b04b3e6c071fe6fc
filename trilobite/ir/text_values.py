"""Reading the values in the text form of a graph: numbers, sizes, types, arrays, tuples, names of regions and
functions.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import DType, bits
from trilobite.ir.graph import Dense
from trilobite.ir.text_tokens import Line
from trilobite.ir.types import FROM_SHORT, Affine, Dim, Symbol, TensorType

WORDS = {"true": True, "false": False, "none": None}
CALLS = ("dense", "scalar", "complex", "host")
RESERVED = frozenset({*WORDS, *CALLS, *FROM_SHORT, "inf", "nan", "splat", "bits", "graph", "return", "dims"})
DEPTH = 64  # how deep tuples may nest
LARGEST = 2**32  # elements of a constant: a few characters of text must not ask for all memory there is


def number_text(value: Any) -> str:
    """A Python number as text that reads back as the same number of the same kind."""
    return f"complex({value.real!r}, {value.imag!r})" if isinstance(value, complex) else repr(value)


def read_elements(words: Sequence[str], dtype: DType) -> np.ndarray[Any, Any]:
    """Elements of a constant from their text."""
    if dtype.kind == "b":
        return np.array([w == "true" for w in words], dtype)
    if dtype.kind == "c":
        pairs = [w[len("complex(") : -1].split(",") for w in words]
        out = np.empty(len(words), dtype)
        out.real, out.imag = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
        return out
    if dtype.kind in "iu" or dtype.name in ("int4", "uint4"):
        return np.array([int(w) for w in words], np.int64 if bits(dtype) == 4 else dtype).astype(dtype)
    with np.errstate(all="ignore"):
        numbers = np.array([float(w) for w in words], np.float64)
        return numbers if dtype == np.float64 else numbers.astype(np.float32).astype(dtype)


class Region(NamedTuple):
    """A place among attributes where a region will stand."""

    number: int


class Values:
    """Reads values, knowing the symbols, the blocks of data and the host functions of a text."""

    def __init__(self, host: Mapping[str, Callable[..., Any]]) -> None:
        self.host = host
        self.symbols: dict[str, Symbol] = {}
        self.blocks: dict[str, Dense] = {}

    def each(self, line: Line, read: Callable[[], Any]) -> list[Any]:
        found = [read()]
        while line.skip(","):
            found.append(read())
        return found

    def value(self, line: Line, regions: list[int], depth: int) -> Any:
        kind, text = line.kind(), line.peek()
        if kind == "string":
            return self.string(line)
        if text == "(":
            return self._tuple(line, regions, depth)
        if kind == "mark":
            return self._mark(line, regions)
        if text in WORDS:
            line.take("name")
            return WORDS[text]
        if text in CALLS:
            return self._call(line)
        if text in FROM_SHORT:
            return self.type(line) if line.peek(1) == "[" else FROM_SHORT[line.take("name")]
        return self._number(line)

    def _tuple(self, line: Line, regions: list[int], depth: int) -> tuple[Any, ...]:
        if depth >= DEPTH:
            raise line.error(f"tuples nested more than {DEPTH} deep")
        line.take("(")
        found: list[Any] = []
        while not line.skip(")"):
            found.append(self.value(line, regions, depth + 1))
            if not line.skip(","):
                line.take(")")
                break
        return tuple(found)

    def _mark(self, line: Line, regions: list[int]) -> Any:
        mark = line.take("mark")
        if mark.startswith("@"):
            if mark not in self.blocks:
                raise line.error(
                    f"the data of {mark} is not in the text",
                    expected="text written by show(graph) with its data",
                )
            return self.blocks[mark]
        if mark != f"^{regions[0]}":
            raise line.error(f"unexpected {mark}", expected=f"^{regions[0]}: regions are numbered in order")
        regions[0] += 1
        return Region(regions[0] - 1)

    def string(self, line: Line) -> str:
        text = line.take("string")
        try:
            found: str = json.loads(text)
        except ValueError:
            raise line.error(f"{text} is not a string", expected="a string as in JSON") from None
        return found

    def _call(self, line: Line) -> Any:
        name = line.take("name")
        line.take("(")
        if name == "host":
            found: Any = self._host(line)
        elif name == "complex":
            re_ = self._float(line)
            line.take(",")
            found = complex(re_, self._float(line))
        else:
            array = self._array(line)
            found = Dense(array) if name == "dense" else array[()]
        line.take(")")
        return found

    def _host(self, line: Line) -> Callable[..., Any]:
        name = self.string(line)
        if name not in self.host:
            raise line.error(
                f"the function {name!r} is not in the text", expected="parse(text, host={name: function})"
            )
        return self.host[name]

    def _array(self, line: Line) -> np.ndarray[Any, Any]:
        t = self.type(line)
        size = self._elements(line, t)
        if size == 0:
            return np.empty(t.shape, t.dtype)
        line.take(",")
        if line.skip("bits"):
            return self._from_bits(line, t)
        splat = line.skip("splat")
        words = self.each(line, lambda: self._element(line, t.dtype))
        if len(words) != (1 if splat else size):
            raise line.error(f"{len(words)} elements for {t}", expected=1 if splat else size)
        try:
            found = read_elements(words, t.dtype)
        except (ValueError, OverflowError):
            raise line.error(f"the elements do not fit {t}") from None
        return np.full(t.shape, found[0], t.dtype) if splat else found.reshape(t.shape)

    def _elements(self, line: Line, t: TensorType) -> int:
        """How many elements an array of this type has, if it can be one."""
        sizes = [d for d in t.shape if isinstance(d, int)]
        if len(sizes) != len(t.shape):
            raise line.error(f"an array of type {t}", expected="whole numbers as sizes")
        if math.prod(sizes) > LARGEST:
            raise line.error(f"an array of type {t}", expected=f"at most {LARGEST} elements")
        return math.prod(sizes)

    def _from_bits(self, line: Line, t: TensorType) -> np.ndarray[Any, Any]:
        code = "".join(text for _, text in line.tokens[line.at :]).partition(")")[0]
        while line.peek() != ")" and line.kind() != "end":
            line.at += 1
        try:
            return np.frombuffer(bytes.fromhex(code), t.dtype).reshape(t.shape)
        except ValueError:
            raise line.error(f"{code!r} are not the bits of {t}") from None

    def _element(self, line: Line, dtype: DType) -> str:
        if dtype.kind == "b":
            word = line.take("name")
            if word not in ("true", "false"):
                raise line.error(f"{word} is not a truth value", expected="true or false")
            return word
        if dtype.kind == "c":
            line.take("complex")
            line.take("(")
            re_ = self._float(line)
            line.take(",")
            im = self._float(line)
            line.take(")")
            return f"complex({re_!r}, {im!r})"
        sign = "-" if line.skip("-") else ""
        return sign + (line.take("name") if line.peek() in ("inf", "nan") else line.take("number"))

    def _float(self, line: Line) -> float:
        sign = -1.0 if line.skip("-") else 1.0
        return sign * float(line.take("name") if line.peek() in ("inf", "nan") else line.take("number"))

    def _number(self, line: Line) -> Any:
        """A Python number, or a size: a sum of symbols times whole numbers."""
        ahead = 1 if line.peek() == "-" else 0
        text = line.peek(ahead)
        if text in ("inf", "nan") or re.fullmatch(r"\d+(\.\d*([eE].*)?|[eE].*)", text):
            return self._float(line)
        return self.dim(line)

    def dim(self, line: Line) -> Dim:
        total = self._term(line, -1 if line.skip("-") else 1)
        while line.peek() in ("+", "-"):
            sign = 1 if line.take("sign") == "+" else -1
            total = total + self._term(line, sign)
        return total

    def _term(self, line: Line, sign: int) -> Dim:
        factor = sign
        if line.kind() == "number":
            factor *= line.whole()
            if not line.skip("*"):
                return factor
        name = line.take("name")
        if name not in self.symbols:
            raise line.error(
                f"{name!r} is not a value", expected="a number, or a symbol that `dims` declares"
            )
        return Affine(0, [(self.symbols[name], factor)]) if factor else 0

    def type(self, line: Line) -> TensorType:
        name = line.take("name")
        if name not in FROM_SHORT:
            raise line.error(f"{name!r} is not a dtype", expected=f"one of {', '.join(sorted(FROM_SHORT))}")
        line.take("[")
        dims = [] if line.peek() == "]" else self.each(line, lambda: self.dim(line))
        line.take("]")
        if any(not isinstance(d, Affine) and d < 0 for d in dims):
            raise line.error(f"the sizes {dims}", expected="sizes of at least 0")
        return TensorType(tuple(dims), FROM_SHORT[name])

    # -- blocks of data -------------------------------------------------------------------------------------

    def read_blocks(self, rows: Sequence[str], first: int) -> None:
        heads = [i for i in range(first, len(rows)) if rows[i].startswith("@")]
        for start, stop in zip(heads, [*heads[1:], len(rows)], strict=False):
            line = Line(start + 1, rows[start])
            name = line.take("mark")
            line.take(":")
            t = self.type(line)
            line.take("=")
            line.end()
            if name in self.blocks:
                raise line.error(f"the data of {name} is given twice")
            self.blocks[name] = Dense(
                self._decoded(line, t, "".join(r.strip() for r in rows[start + 1 : stop]))
            )

    def _decoded(self, line: Line, t: TensorType, code: str) -> np.ndarray[Any, Any]:
        try:
            raw = base64.b64decode(code, validate=True)
        except binascii.Error:
            raise line.error(f"the data of {t} is not base 64") from None
        size = self._elements(line, t) * t.dtype.itemsize
        if len(raw) != size:
            raise line.error(f"{len(raw)} bytes of data for {t}", expected=size)
        array = np.frombuffer(raw, t.dtype).reshape(t.shape)
        if bits(t.dtype) == 4 and raw and max(raw) > 15:
            raise line.error(f"the data of {t} has bits outside of its elements", expected="bytes below 16")
        return array
