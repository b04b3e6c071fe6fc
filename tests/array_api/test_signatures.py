"""Every name of the standard is there, with the standard's signature.

A parameter that the standard makes positional-only or keyword-only may also be the other, and there may be
more of them; what the standard allows must be allowed, with the same default.
"""

from __future__ import annotations

import inspect

import pytest

import trilobite as tb
from trilobite.framework.tensor import Tensor

P = inspect.Parameter
FUNCTIONS = """
abs(x, /) acos(x, /) acosh(x, /) add(x1, x2, /) asin(x, /) asinh(x, /) atan(x, /) atan2(x1, x2, /) atanh(x, /)
bitwise_and(x1, x2, /) bitwise_left_shift(x1, x2, /) bitwise_invert(x, /) bitwise_or(x1, x2, /)
bitwise_right_shift(x1, x2, /) bitwise_xor(x1, x2, /) ceil(x, /) clip(x, /, min=None, max=None) conj(x, /)
copysign(x1, x2, /) cos(x, /) cosh(x, /) divide(x1, x2, /) equal(x1, x2, /) exp(x, /) expm1(x, /) floor(x, /)
floor_divide(x1, x2, /) greater(x1, x2, /) greater_equal(x1, x2, /) hypot(x1, x2, /) imag(x, /) isfinite(x, /)
isinf(x, /) isnan(x, /) less(x1, x2, /) less_equal(x1, x2, /) log(x, /) log1p(x, /) log2(x, /) log10(x, /)
logaddexp(x1, x2, /) logical_and(x1, x2, /) logical_not(x, /) logical_or(x1, x2, /) logical_xor(x1, x2, /)
maximum(x1, x2, /) minimum(x1, x2, /) multiply(x1, x2, /) negative(x, /) nextafter(x1, x2, /) not_equal(x1,
x2, /)
positive(x, /) pow(x1, x2, /) real(x, /) reciprocal(x, /) remainder(x1, x2, /) round(x, /) sign(x, /)
signbit(x, /)
sin(x, /) sinh(x, /) square(x, /) sqrt(x, /) subtract(x1, x2, /) tan(x, /) tanh(x, /) trunc(x, /)

arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None) empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None) from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None) full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True) meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None) ones_like(x, /, *, dtype=None, device=None) tril(x, /, *, k=0)
triu(x, /, *, k=0) zeros(shape, *, dtype=None, device=None) zeros_like(x, /, *, dtype=None, device=None)

astype(x, dtype, /, *, copy=True, device=None) can_cast(from_, to, /) finfo(type, /) iinfo(type, /)
isdtype(dtype, kind) result_type(*arrays_and_dtypes)

take(x, indices, /, *, axis=None) take_along_axis(x, indices, /, *, axis=-1)

matmul(x1, x2, /) matrix_transpose(x, /) tensordot(x1, x2, /, *, axes=2) vecdot(x1, x2, /, *, axis=-1)

broadcast_arrays(*arrays) broadcast_shapes(*shapes) broadcast_to(x, /, shape) concat(arrays, /, *, axis=0)
expand_dims(x, /, axis) flip(x, /, *, axis=None) moveaxis(x, source, destination, /) permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None) reshape(x, /, shape, *, copy=None) roll(x, /, shift, *, axis=None)
squeeze(x, /, axis) stack(arrays, /, *, axis=0) tile(x, repetitions, /) unstack(x, /, *, axis=0)

argmax(x, /, *, axis=None, keepdims=False) argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False) nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None) where(condition, x1, x2, /)

isin(x1, x2, /, *, invert=False) unique_all(x, /) unique_counts(x, /) unique_inverse(x, /) unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True) sort(x, /, *, axis=-1, descending=False, stable=True)

cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False) mean(x, /, *, axis=None, keepdims=False) min(x, /, *, axis=None,
keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False) std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False) var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False) any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)

__array_namespace_info__()
"""
METHODS = """
__abs__(self, /) __add__(self, other, /) __and__(self, other, /) __array_namespace__(self, /, *,
api_version=None)
__bool__(self, /) __complex__(self, /)
__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None) __dlpack_device__(self, /)
__eq__(self, other, /) __float__(self, /) __floordiv__(self, other, /) __ge__(self, other, /)
__getitem__(self, key, /)
__gt__(self, other, /) __index__(self, /) __int__(self, /) __invert__(self, /) __le__(self, other, /)
__lshift__(self, other, /) __lt__(self, other, /) __matmul__(self, other, /) __mod__(self, other, /)
__mul__(self, other, /) __ne__(self, other, /) __neg__(self, /) __or__(self, other, /) __pos__(self, /)
__pow__(self, other, /) __rshift__(self, other, /) __setitem__(self, key, value, /) __sub__(self, other, /)
__truediv__(self, other, /) __xor__(self, other, /) to_device(self, device, /, *, stream=None)
__iadd__(self, other, /) __isub__(self, other, /) __imul__(self, other, /) __itruediv__(self, other, /)
__ifloordiv__(self, other, /) __ipow__(self, other, /) __imatmul__(self, other, /) __imod__(self, other, /)
__iand__(self, other, /) __ior__(self, other, /) __ixor__(self, other, /) __ilshift__(self, other, /)
__irshift__(self, other, /) __radd__(self, other, /) __rsub__(self, other, /) __rmul__(self, other, /)
__rtruediv__(self, other, /) __rfloordiv__(self, other, /) __rpow__(self, other, /) __rmatmul__(self, other,
/)
__rmod__(self, other, /) __rand__(self, other, /) __ror__(self, other, /) __rxor__(self, other, /)
__rlshift__(self, other, /) __rrshift__(self, other, /)
"""
INFO = """
capabilities(self) default_device(self) default_dtypes(self, *, device=None) devices(self)
dtypes(self, *, device=None, kind=None)
"""
ATTRIBUTES = ("dtype", "device", "mT", "ndim", "shape", "size", "T")
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


LINALG = """
cholesky(x, /, *, upper=False) cross(x1, x2, /, *, axis=-1) det(x, /) diagonal(x, /, *, offset=0) eig(x, /)
eigh(x, /) eigvals(x, /) eigvalsh(x, /) inv(x, /) matmul(x1, x2, /) matrix_norm(x, /, *, keepdims=False,
ord='fro')
matrix_power(x, n, /) matrix_rank(x, /, *, rtol=None) matrix_transpose(x, /) outer(x1, x2, /)
pinv(x, /, *, rtol=None) qr(x, /, *, mode='reduced') slogdet(x, /) solve(x1, x2, /)
svd(x, /, *, full_matrices=True) svdvals(x, /) tensordot(x1, x2, /, *, axes=2) trace(x, /, *, offset=0,
dtype=None)
vecdot(x1, x2, /, *, axis=-1) vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""
FFT = """
fft(x, /, *, n=None, axis=-1, norm='backward') ifft(x, /, *, n=None, axis=-1, norm='backward')
fftn(x, /, *, s=None, axes=None, norm='backward') ifftn(x, /, *, s=None, axes=None, norm='backward')
rfft(x, /, *, n=None, axis=-1, norm='backward') irfft(x, /, *, n=None, axis=-1, norm='backward')
rfftn(x, /, *, s=None, axes=None, norm='backward') irfftn(x, /, *, s=None, axes=None, norm='backward')
hfft(x, /, *, n=None, axis=-1, norm='backward') ihfft(x, /, *, n=None, axis=-1, norm='backward')
fftfreq(n, /, *, d=1.0, dtype=None, device=None) rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fftshift(x, /, *, axes=None) ifftshift(x, /, *, axes=None)
"""


def _signatures(text: str) -> list[tuple[str, inspect.Signature]]:
    found = []
    for entry in text.replace("\n", " ").split(") "):
        name, _, rest = entry.strip().partition("(")
        if name:
            scope: dict[str, object] = {}
            exec(
                f"def f({rest.rstrip(')')}): ...", scope
            )  # the texts of this file, written as Python writes them
            found.append((name, inspect.signature(scope["f"])))  # type: ignore[arg-type]
    return found


def check(ours: inspect.Signature, standard: inspect.Signature) -> None:
    given = list(ours.parameters.values())
    wanted = list(standard.parameters.values())
    positional = [p for p in wanted if p.kind is not P.KEYWORD_ONLY]
    for p, q in zip(positional, given, strict=False):
        if p.kind is P.POSITIONAL_ONLY:
            assert q.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
        else:
            assert (q.name, q.kind) == (p.name, p.kind)
        if p.default is not P.empty:
            assert q.default == p.default
    assert len(given) >= len(positional)
    for p in wanted[len(positional) :]:
        assert p.name in ours.parameters
        q = ours.parameters[p.name]
        assert q.kind in (P.KEYWORD_ONLY, P.POSITIONAL_OR_KEYWORD)
        assert q.default == p.default
    for q in given[len(positional) :]:
        more = q.kind in (P.VAR_KEYWORD, P.VAR_POSITIONAL)
        assert q.name in standard.parameters or q.default is not P.empty or more


@pytest.mark.parametrize(
    ("name", "signature"), _signatures(FUNCTIONS), ids=lambda v: v if isinstance(v, str) else ""
)
def test_function(name: str, signature: inspect.Signature) -> None:
    check(inspect.signature(getattr(tb, name)), signature)


@pytest.mark.parametrize(
    ("name", "signature"), _signatures(METHODS), ids=lambda v: v if isinstance(v, str) else ""
)
def test_method(name: str, signature: inspect.Signature) -> None:
    check(inspect.signature(getattr(Tensor, name)), signature)


@pytest.mark.parametrize(
    ("name", "signature"), _signatures(INFO), ids=lambda v: v if isinstance(v, str) else ""
)
def test_inspection(name: str, signature: inspect.Signature) -> None:
    check(inspect.signature(getattr(tb.__array_namespace_info__, name)), signature)


@pytest.mark.parametrize(
    ("name", "signature"), _signatures(LINALG), ids=lambda v: v if isinstance(v, str) else ""
)
def test_linalg(name: str, signature: inspect.Signature) -> None:
    check(inspect.signature(getattr(tb.linalg, name)), signature)


@pytest.mark.parametrize(
    ("name", "signature"), _signatures(FFT), ids=lambda v: v if isinstance(v, str) else ""
)
def test_fft(name: str, signature: inspect.Signature) -> None:
    check(inspect.signature(getattr(tb.fft, name)), signature)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute(name: str) -> None:
    assert hasattr(tb.ones((2, 2)), name)


@pytest.mark.parametrize("name", CONSTANTS + DTYPES)
def test_constant(name: str) -> None:
    assert hasattr(tb, name)


def test_every_function_has_a_first_line() -> None:
    bare = [n for n, _ in _signatures(FUNCTIONS) if not (getattr(tb, n).__doc__ or "").strip()]
    assert bare == []


def test_the_namespace_names_its_version() -> None:
    x = tb.ones(1)
    assert tb.__array_api_version__ == "2025.12"
    assert x.__array_namespace__() is tb
    assert x.__array_namespace__(api_version="2023.12") is tb
