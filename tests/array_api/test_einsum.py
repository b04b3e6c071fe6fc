"""einsum and the products of linear.py: against NumPy in float64; derivatives; the order of contraction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework.ops.einsum import parse

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 3, "j": 4, "k": 2, "l": 5, "m": 1}
EQUATIONS = [
    "ij,jk->ik",
    "ij,jk",
    "ij,kj->ik",
    "i,i->",
    "i,j->ij",
    "i,i->i",
    "ij->ji",
    "ij->",
    "ij->j",
    "ii->",
    "iij->ij",
    "ii->i",
    "bij,bjk->bik",
    "bij,jk->bik",
    "abc,cd->abd",
    "abc,bad->cd",
    "ij,jk,kl->il",
    "ij,ij,ij->ij",
    "ij,j,j->i",
    "a,b,c->cab",
    "aij,bij->ab",
    "abcd,acde->abe".replace("e", "i"),
    "iji,j->i",
    "ab,cd->",
    "m,ij->mij",
    "aab,b->a",
    "k,ij,jl,lk->i",
]
DOTS = [
    "...ij,...jk->...ik",
    "...i->...",
    "i...,i...->...",
    "...ij->...ji",
    "...,...->...",
    "ij...,jk...->ik...",
]


def near(got: tb.Tensor, want: Any) -> None:
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-12)


def operands(equation: str, lead: tuple[tuple[int, ...], ...] = ()) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(len(equation))
    out = []
    for n, term in enumerate(equation.split("->")[0].split(",")):
        head, dots, tail = term.partition("...")
        shape = (
            [SIZES[c] for c in head] + list(lead[n % len(lead)] if dots else ()) + [SIZES[c] for c in tail]
        )
        out.append(random.standard_normal(shape))
    return out


@pytest.mark.parametrize("equation", EQUATIONS)
def test_against_numpy(equation: str) -> None:
    arrays = operands(equation)
    want = np.einsum(equation, *arrays)
    tensors = [tb.tensor(a) for a in arrays]
    near(tb.einsum(equation, *tensors), want)
    near(tb.jit(lambda *t: tb.einsum(equation, *t))(*tensors), want)
    batch = [tb.tensor(np.stack([a, -a])) for a in arrays]
    near(tb.vmap(lambda *t: tb.einsum(equation, *t))(*batch), np.stack([want, want * (-1.0) ** len(arrays)]))


@pytest.mark.parametrize("equation", DOTS)
@pytest.mark.parametrize("lead", [((),), ((2, 3),), ((2, 3), (3,)), ((2, 1), (3,))])
def test_ellipsis_broadcasts(equation: str, lead: tuple[tuple[int, ...], ...]) -> None:
    arrays = operands(equation, lead)
    near(tb.einsum(equation, *(tb.tensor(a) for a in arrays)), np.einsum(equation, *arrays))


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "bij,bjk->bik", "ij,jk,kl->il", "iij->ij", "i,j->ij", "ij,ij->"]
)
def test_gradients(equation: str) -> None:
    arrays = operands(equation)
    tensors = [tb.tensor(a) for a in arrays]
    f = lambda *t: tb.sum(tb.square(tb.einsum(equation, *t)))  # noqa: E731
    grads = tb.grad(f, argnums=tuple(range(len(arrays))))(*tensors)
    h = 1e-6
    for n, g in enumerate(grads):
        direction = np.random.default_rng(n).standard_normal(arrays[n].shape)
        plus, minus = (
            f(
                *(
                    tb.tensor(a + s * h * direction) if i == n else t
                    for i, (a, t) in enumerate(zip(arrays, tensors, strict=True))
                )
            )
            for s in (1, -1)
        )
        assert tb.sum(g * tb.tensor(direction)).item() == pytest.approx(
            (plus - minus).item() / (2 * h), rel=1e-6
        )


def test_the_cheap_contraction_comes_first() -> None:
    """(ij,jk),k would build an i×k matrix; j·k first keeps vectors only."""
    graph = tb.make_graph(lambda x, y, v: tb.einsum("ij,jk,k->i", x, y, v))(
        tb.ones((50, 40)), tb.ones((40, 60)), tb.ones(60)
    )
    shapes = [tuple(v.type.shape) for e in graph.equations if e.primitive.name == "dot" for v in e.outputs]
    assert shapes == [(40,), (50,)]


def test_integers_and_small_floats() -> None:
    x = tb.asarray([[1, 2], [3, 4]], dtype=tb.int8)
    assert tb.einsum("ij,jk->ik", x, x).dtype == tb.int8
    y = tb.full((1, 3000), 1.0, dtype=tb.bfloat16)
    assert tb.einsum("ij,kj->ik", y, y).item() == float(np.float32(3000).astype(y.dtype))


def test_letters() -> None:
    assert parse("ij,jk", [(2, 3), (3, 4)]) == ([("i", "j"), ("j", "k")], ("i", "k"))
    assert parse("...a->a...", [(2, 3, 4)]) == ([(".2", ".1", "a")], ("a", ".2", ".1"))


# -- products --------------------------------------------------------------------------------------------

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((2, 3), (5, 3, 4)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    for dtype in ("float64", "complex128", "int32"):
        a, b = ((random.standard_normal(s) * 9).astype(dtype) for s in (left, right))
        near(tb.matmul(tb.tensor(a), tb.tensor(b)), a @ b)
        near(tb.tensor(a) @ tb.tensor(b), a @ b)
        near(tb.jit(tb.matmul)(tb.tensor(a), tb.tensor(b)), a @ b)


@pytest.mark.parametrize("axes", [0, 1, 2, ((0,), (1,)), ((1, 2), (0, 1)), ([-1], [0]), (1, 0)])
def test_tensordot(axes: Any) -> None:
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(3, 4, 2) - 7
    if axes == ((0,), (1,)):
        b = np.arange(24.0).reshape(3, 2, 4)
    elif axes in (1, ([-1], [0])):
        b = np.arange(8.0).reshape(4, 2)
    near(tb.tensordot(tb.tensor(a), tb.tensor(b), axes=axes), np.tensordot(a, b, axes))


def test_vecdot_conjugates_the_first() -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((2, 3, 4)) + 1j * random.standard_normal((2, 3, 4)) for _ in range(2))
    near(tb.vecdot(tb.tensor(a), tb.tensor(b)), (a.conj() * b).sum(-1))
    near(tb.vecdot(tb.tensor(a), tb.tensor(b), axis=-2), (a.conj() * b).sum(-2))
    near(tb.vecdot(tb.tensor(a), tb.tensor(b[0, 0])), (a.conj() * b[0, 0]).sum(-1))
    x = np.arange(6).reshape(2, 3)
    near(tb.vecdot(tb.tensor(x), tb.tensor(x[:1])), (x * x[:1]).sum(-1))


@pytest.mark.parametrize("offset", [0, 1, -1, 2, -3, 9])
def test_diagonals(offset: int) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    near(tb.diagonal(tb.tensor(a), offset), np.diagonal(a, offset))
    near(tb.diagonal(tb.tensor(a), offset, -2, -1), np.diagonal(a, offset, -2, -1))
    near(tb.diagonal(tb.tensor(a), offset, 2, 0), np.diagonal(a, offset, 2, 0))
    near(tb.diag(tb.tensor(a[0]), offset), np.diag(a[0], offset))
    near(tb.diag(tb.tensor(a[0, 0]), offset), np.diag(a[0, 0], offset))
    near(tb.trace(tb.tensor(a), offset), np.trace(a, offset))
    near(tb.jit(lambda t: tb.diag(t, offset))(tb.tensor(a[0, 0])), np.diag(a[0, 0], offset))


def test_products_of_vectors() -> None:
    a, b = np.array([1.0, 2.0, -3.0]), np.array([4.0, 5.0, 6.0])
    near(tb.dot(tb.tensor(a), tb.tensor(b)), np.dot(a, b))
    near(tb.outer(tb.tensor(a), tb.tensor(b)), np.outer(a, b))
    near(tb.inner(tb.tensor(a), tb.tensor(b)), np.inner(a, b))
    m = np.arange(6.0).reshape(2, 3)
    near(tb.kron(tb.tensor(m), tb.tensor(a)), np.kron(m, a))
    near(tb.kron(tb.tensor(m), tb.tensor(m.T)), np.kron(m, m.T))
    near(tb.cdist(tb.tensor(m), tb.tensor(m + 1)), np.linalg.norm(m[:, None] - (m + 1)[None], axis=-1))
