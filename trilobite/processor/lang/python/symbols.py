"""Scalars of a kernel while it is compiled: Python's operators write IR.

Runtime integers are i64, floats keep their format and mix as NumPy's scalars do (f16 with f32 gives f32).
Python's literals take the type of what they meet. `//` and `%` round as Python rounds. A symbol remembers the
symbol it is a constant away from, so that `x[s : s + 64]` is known to have 64 elements.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import KernelError
from trilobite.processor.isa.formats import BF16, F16, F32, F64, I64, Format
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Constant, Value
from trilobite.processor.lang.types import is_float

_RANK = {F16: 1, BF16: 1, F32: 2, F64: 3}
Number = int | float


class Symbol:
    """A value that only a run knows."""

    __slots__ = ("builder", "nonnegative", "root", "shift", "value")

    def __init__(
        self,
        builder: Builder,
        value: Value,
        nonnegative: bool = False,
        root: Value | None = None,
        shift: int = 0,
    ) -> None:
        self.builder, self.value, self.nonnegative = builder, value, nonnegative
        self.root, self.shift = root or value, shift

    @property
    def fmt(self) -> Format:
        assert isinstance(self.value.type, Format)
        return self.value.type

    def __repr__(self) -> str:
        return f"<{self.value.type.name} known only at run time>"

    def __bool__(self) -> bool:
        raise KernelError(
            "a value that only a run knows decides something while the kernel is compiled",
            where=self.builder.location,
            expected="a value that is known at compile time here",
            remedy="use it in an `if`, `while` or conditional expression of the kernel itself",
        )

    __hash__ = object.__hash__

    # arithmetic
    def __add__(self, other: Any) -> Any:
        made = binary(self.builder, "add", self, other)
        if isinstance(other, int) and isinstance(made, Symbol) and made is not self:
            made.root, made.shift = self.root, self.shift + other
        return made

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Symbol) and other.root is self.root and not is_float(self.fmt):
            return self.shift - other.shift
        if isinstance(other, int) and not is_float(self.fmt):
            return self + -other
        if isinstance(other, Symbol) and (left := _left_over(self, other)) is not None:
            return left
        return binary(self.builder, "sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return binary(self.builder, "sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return binary(self.builder, "mul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _divide(self.builder, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _divide(self.builder, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return floor_divide(self.builder, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return floor_divide(self.builder, other, self)

    def __mod__(self, other: Any) -> Any:
        return modulo(self.builder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return modulo(self.builder, other, self)

    def __and__(self, other: Any) -> Any:
        return binary(self.builder, "and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return binary(self.builder, "or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return binary(self.builder, "xor", self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Any:
        return binary(self.builder, "shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return binary(self.builder, "shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return binary(self.builder, "shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return binary(self.builder, "shr", other, self)

    def __neg__(self) -> Any:
        return Symbol(self.builder, self.builder.arithmetic("neg", self.fmt, self.value))

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return Symbol(self.builder, self.builder.arithmetic("not", self.fmt, self.value))

    def __abs__(self) -> Any:
        return Symbol(self.builder, self.builder.arithmetic("abs", self.fmt, self.value), True)

    # comparison
    def __lt__(self, other: Any) -> Any:
        return binary(self.builder, "lt", self, other)

    def __le__(self, other: Any) -> Any:
        return binary(self.builder, "le", self, other)

    def __gt__(self, other: Any) -> Any:
        return binary(self.builder, "gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return binary(self.builder, "ge", self, other)

    def __eq__(self, other: object) -> Any:
        return binary(self.builder, "eq", self, other)

    def __ne__(self, other: object) -> Any:
        return binary(self.builder, "ne", self, other)


def _left_over(total: Symbol, part: Symbol) -> Symbol | None:
    """(a + b) - a is b, whichever of the two was added."""
    op = getattr(total.value, "op", None)
    if op is None or op.opcode != "add" or is_float(total.fmt):
        return None
    for place in (0, 1):
        if op.operands[place] is part.value:
            other = op.operands[1 - place]
            return None if isinstance(other, Constant) else Symbol(total.builder, other)
    return None


def common_format(builder: Builder, a: Any, b: Any) -> Format:
    """The format in which two scalars meet."""
    formats = [v.fmt for v in (a, b) if isinstance(v, Symbol)]
    floats = [fmt for fmt in formats if is_float(fmt)]
    if not floats:
        if any(isinstance(v, float) for v in (a, b)):
            raise KernelError(
                "an integer that only a run knows meets a float literal",
                where=builder.location,
                expected="operands of one kind",
                remedy="convert the integer first: dlp.f32(n) * 0.5",
            )
        return I64
    best = max(floats, key=lambda fmt: _RANK[fmt])
    return F32 if {F16, BF16} <= set(floats) else best


def value_of(builder: Builder, given: Any, fmt: Format) -> Value:
    """A scalar as an IR value of the format; literals become constants, others are converted."""
    if isinstance(given, Symbol):
        if given.fmt is fmt:
            return given.value
        return builder.convert(given.value, fmt, "rn" if is_float(fmt) else "rz")
    if isinstance(given, bool):
        given = int(given)
    if hasattr(given, "dtype") and hasattr(given, "item"):
        given = given.item()
    if isinstance(given, int) and not -(1 << 63) <= given < 1 << 64:
        raise KernelError(
            f"the number {given} needs more than 64 bits",
            where=builder.location,
            expected="a number of 64 bits",
            remedy="use a smaller one",
        )
    if isinstance(given, int):
        return builder.constant(fmt, float(given) if is_float(fmt) else given)
    if isinstance(given, float) and is_float(fmt):
        return builder.constant(fmt, given)
    raise KernelError(
        f"{given!r} cannot be used as a {fmt.name}",
        where=builder.location,
        expected="a number or a scalar of the kernel",
        remedy="convert it with dlp.i64(...) or dlp.f32(...)",
    )


_SIGNED = {"add", "mul", "and", "or", "shr", "min", "max"}
_WHOLE = {"and", "or", "xor", "shl", "shr"}


def binary(builder: Builder, opcode: str, a: Any, b: Any) -> Any:
    """One operation of two scalars; what can be told at once is not written down."""
    if not all(isinstance(v, (Symbol, int, float)) or hasattr(v, "item") for v in (a, b)):
        return NotImplemented
    fmt = common_format(builder, a, b)
    if opcode in _WHOLE and is_float(fmt):
        raise KernelError(
            f"bits of a {fmt.name} are asked for by `{opcode}`",
            where=builder.location,
            expected="integers",
            remedy="convert with dlp.i64(x)",
        )
    x, y = value_of(builder, a, fmt), value_of(builder, b, fmt)
    same = isinstance(a, Symbol) and a.fmt is fmt and not is_float(fmt)
    if same and opcode in ("add", "sub") and isinstance(y, Constant) and y.value == 0:
        return a
    grown = all(_is_nonnegative(v) for v in (a, b)) and opcode in _SIGNED
    if opcode == "and" and any(isinstance(v, int) and v >= 0 for v in (a, b)):
        grown = True
    return Symbol(builder, builder.arithmetic(opcode, fmt, x, y), grown)


def _is_nonnegative(value: Any) -> bool:
    return value.nonnegative if isinstance(value, Symbol) else isinstance(value, int) and value >= 0


def _divide(builder: Builder, a: Any, b: Any) -> Any:
    if not any(isinstance(v, Symbol) and is_float(v.fmt) for v in (a, b)):
        raise KernelError(
            "`/` of integers would give a float",
            where=builder.location,
            expected="floats, or `//` for whole numbers",
            remedy="write a // b, or dlp.f32(a) / dlp.f32(b)",
        )
    return binary(builder, "div", a, b)


def _whole(builder: Builder, a: Any, b: Any, sign: str) -> None:
    if is_float(common_format(builder, a, b)):
        raise KernelError(
            f"`{sign}` of floats",
            where=builder.location,
            expected="integers",
            remedy="divide with / and round with dlp.floor(x)",
        )


def _not_zero(builder: Builder, divisor: Any) -> None:
    if isinstance(divisor, int) and divisor == 0:
        raise KernelError(
            "a division by 0", where=builder.location, expected="another divisor", remedy="correct it"
        )


def floor_divide(builder: Builder, a: Any, b: Any) -> Any:
    """Rounds down, as Python does; the machine cuts towards zero."""
    _whole(builder, a, b, "//")
    _not_zero(builder, b)
    if isinstance(b, int) and b > 0 and b & (b - 1) == 0:
        return binary(builder, "shr", a, b.bit_length() - 1) if b > 1 else a
    quotient = binary(builder, "div", a, b)
    if _is_nonnegative(a) and _is_nonnegative(b):
        quotient.nonnegative = True
        return quotient
    rest = a - quotient * b
    wrong = (rest != 0) & ((rest ^ b) < 0)
    return quotient - wrong


def modulo(builder: Builder, a: Any, b: Any) -> Any:
    """Has the sign of the divisor, as in Python."""
    _whole(builder, a, b, "%")
    _not_zero(builder, b)
    if isinstance(b, int) and b > 0 and b & (b - 1) == 0:
        return binary(builder, "and", a, b - 1)
    rest = binary(builder, "rem", a, b)
    if _is_nonnegative(a) and _is_nonnegative(b):
        rest.nonnegative = True
        return rest
    wrong = (rest != 0) & ((rest ^ b) < 0)
    return rest + wrong * b
