"""Products with something added, as PyTorch names them; and linear algebra at the top of the namespace."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.meeting import plain
from trilobite.framework.ops.registry import operators, tensor_op
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor

G = "products with additions"


def _scaled(x: Any, factor: Any) -> Any:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    return x * (factor if isinstance(factor, Tensor) else plain(factor))


def _added(input: Any, product: Any, beta: Any, alpha: Any) -> Tensor:
    """beta·input + alpha·product; what beta = 0 leaves out may be NaN."""
    product = _scaled(product, alpha)
    if isinstance(beta, (int, float)) and beta == 0:
        return product  # type: ignore[no-any-return]
    return _scaled(handle(input), beta) + product  # type: ignore[no-any-return]


@tensor_op(G, plan=True)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta·input + alpha·(mat1 @ mat2)."""
    return _added(input, handle(mat1) @ handle(mat2), beta, alpha)


@tensor_op(G, plan=True)
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta·input + alpha·(mat @ vec)."""
    return _added(input, handle(mat) @ handle(vec), beta, alpha)


@tensor_op(G, plan=True)
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta·input + alpha·(every element of vec1 times every element of vec2)."""
    return _added(input, handle(vec1)[:, None] * handle(vec2)[None, :], beta, alpha)


@tensor_op(G, plan=True)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta·input + alpha·(batch1 @ batch2), matrix by matrix."""
    return _added(input, handle(batch1) @ handle(batch2), beta, alpha)


@tensor_op(G, plan=True)
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta·input + alpha·(the sum of the products of all matrices)."""
    return _added(input, _summed(handle(batch1) @ handle(batch2)), beta, alpha)


def _summed(products: Tensor) -> Tensor:
    """Over the first axis, in the dtype of the products."""
    return products.sum(axis=0).to(products.dtype)  # type: ignore[no-any-return]


@tensor_op(G, plan=True)
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value·tensor1·tensor2."""
    return handle(input) + _scaled(handle(tensor1) * handle(tensor2), value)  # type: ignore[no-any-return]


@tensor_op(G, plan=True)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """input + value·tensor1 / tensor2."""
    return handle(input) + _scaled(handle(tensor1) / handle(tensor2), value)  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices, in the order of fewest multiplications."""
    return _linalg("multi_dot")(list(matrices))  # type: ignore[no-any-return]


@tensor_op(G, plan=True)
def vdot(x1: Any, x2: Any, /) -> Tensor:
    """The product of two vectors, the first conjugated."""
    return operators["vecdot"].public(x1, x2)  # type: ignore[no-any-return]


@tensor_op(G, methods=("t",), view=True)
def t(x: Any, /) -> Tensor:
    """The transpose of a matrix; a vector or a number as it is."""
    x = handle(x)
    if x.ndim > 2:
        raise ShapeError(
            f"t() of a tensor with {x.ndim} dimensions",
            where=user_location(),
            expected="at most two",
            remedy="x.mT exchanges the last two axes, x.transpose(a, b) any",
        )
    return x if x.ndim < 2 else x.transpose(0, 1)  # type: ignore[no-any-return]


@tensor_op(G)
def adjoint(x: Any, /) -> Tensor:
    """The last two axes exchanged, and conjugated."""
    return handle(x).mT.conj() if handle(x).dtype.kind == "c" else handle(x).mT  # type: ignore[no-any-return]


# -- linear algebra by PyTorch's short names -------------------------------------------------------------


def _linalg(name: str) -> Any:
    from trilobite.framework.ops import linalg  # comes in with the first use

    return getattr(linalg, name)


_FORWARDED = {
    "det": "det", "slogdet": "slogdet", "inverse": "inv", "matrix_power": "matrix_power",
    "matrix_exp": "matrix_exp", "logdet": "logdet",
    "cholesky_solve": "cholesky_solve", "cholesky_inverse": "cholesky_inverse",
}  # fmt: skip


def _forwarded(name: str, target: str) -> None:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _linalg(target)(*args, **kwargs)

    call.__name__, call.__doc__ = name, f"`tb.linalg.{target}` at the top of the namespace."
    tensor_op("linear algebra", name=name)(call)


for _name, _target in _FORWARDED.items():
    _forwarded(_name, _target)


@tensor_op("linear algebra")
def cross(x: Any, other: Any, dim: int | None = None) -> Tensor:
    """The cross product along an axis; by default the first that has three elements, as in PyTorch, where
    `tb.linalg.cross` takes the last.
    """
    if dim is None:
        shape = handle(x).shape
        threes = [i for i, d in enumerate(shape) if d == 3]
        dim = threes[0] if threes and handle(other).ndim == len(shape) else -1
    return _linalg("cross")(x, other, axis=dim)  # type: ignore[no-any-return]


@tensor_op("linear algebra")
def qr(x: Any, some: bool = True, *, mode: str | None = None) -> Any:
    """`tb.linalg.qr`, also with PyTorch's older word: `some=False` means the complete Q."""
    return _linalg("qr")(x, mode=("reduced" if some else "complete") if mode is None else mode)


@tensor_op("linear algebra")
def pinverse(x: Any, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse; singular values up to `rcond` times the largest count as 0."""
    return _linalg("pinv")(x, rtol=rcond)  # type: ignore[no-any-return]


@tensor_op("linear algebra")
def cholesky(x: Any, upper: bool = False) -> Tensor:
    """The triangular factor of a positive definite matrix."""
    return _linalg("cholesky")(x, upper=upper)  # type: ignore[no-any-return]


@tensor_op("linear algebra")
def svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V (not its transpose, which tb.linalg.svd gives)."""
    u, s, vh = _linalg("svd")(x, full_matrices=not some)
    return u, s, vh.mT.conj() if vh.dtype.kind == "c" else vh.mT


@tensor_op("linear algebra", methods=("dist",))
def dist(x: Any, other: Any, p: float = 2.0) -> Tensor:
    """The p-norm of the difference."""
    return operators["norm"].public(handle(x) - other, p)  # type: ignore[no-any-return]
