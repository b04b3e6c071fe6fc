"""Wrong uses of tensors, dtypes, devices and backward."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.base.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexingError,
    ShapeError,
    StateError,
)

from .wrong_use import MATRIX, X, leaf, wrong


@wrong(
    ShapeError,
    "shapes (3,) and (4,) do not broadcast",
    "sizes that are equal or 1; axis -1 has 3 and 4",
    "reshape or index one of them with None, so that its axes line",
)
def add_shapes() -> Any:
    return tb.ones((3,)) + tb.ones((4,))


@wrong(
    ShapeError,
    "matmul of shapes (3, 4) and (3, 4)",
    "the last axis of the first (4) equal to the second to last of",
    "transpose one of them: x @ y.mT",
)
def matmul() -> Any:
    return tb.ones((3, 4)) @ tb.ones((3, 4))


@wrong(
    ShapeError,
    "reshape of 12 elements to (5, 2), which has 10",
    "as many elements as before",
    "let one size be worked out: -1",
)
def reshape() -> Any:
    return MATRIX.reshape(5, 2)


@wrong(
    ShapeError,
    "reshape of 12 elements to (5, -1)",
    "a multiple of 5 elements",
    "give sizes whose product is the number of elements; -1 stands",
)
def reshape_1() -> Any:
    return MATRIX.reshape(5, -1)


@wrong(
    ShapeError,
    "concat along axis 0 of shapes (3, 4) and, as number 1, (2, 5)",
    "equal sizes in every axis but axis 0",
    "choose another axis, or pad or cut to equal sizes; tb.stack",
)
def concat() -> Any:
    return tb.concat([tb.ones((3, 4)), tb.ones((2, 5))])


@wrong(
    ShapeError,
    "stack: tensor 0 has shape (3,), tensor 1 has shape (2,)",
    "equal shapes",
    "tb.concat joins along an axis that is there",
)
def stack() -> Any:
    return tb.stack([tb.ones((3,)), tb.ones((2,))])


@wrong(
    ShapeError,
    "sum: axis 2 of a tensor with 2 dimensions",
    "-2 <= axis < 2",
    "axes count from 0, or from -1 backwards",
)
def axis() -> Any:
    return MATRIX.sum(axis=2)


@wrong(
    IndexingError,
    "index 7 on axis 0, which has size 3",
    "-3 <= index < 3",
    "indices count from 0, or from -1 backwards; a slice may go past",
)
def index_range() -> Any:
    return X[7]


@wrong(
    IndexingError,
    "2 indices for a tensor with 1 dimensions",
    "at most 1",
    "leave indices away, or add an axis first: x[..., None]",
)
def index_too_many() -> Any:
    return X[1, 2]


@wrong(
    IndexingError,
    "an index of type float",
    "integers, slices, None, Ellipsis, or integer and boolean tensors",
    "make it an integer: int(i), x.astype(tb.int64)",
)
def index_float() -> Any:
    return X[1.5]


@wrong(
    ShapeError, "squeeze: axis 0 of shape (3, 4) has size 3", "size 1", "name axes of size 1 only, or reshape"
)
def squeeze() -> Any:
    return tb.squeeze(MATRIX, axis=0)


@wrong(
    ShapeError, "permute_dims: the axes (0, 0) name one axis twice", "distinct axes", "name each axis once"
)
def transpose() -> Any:
    return tb.permute_dims(MATRIX, (0, 0))


@wrong(
    DTypeError,
    "'float33' is not a dtype that tensors can have",
    "one of bfloat16, bool, complex128, complex64, float16, float32,",
    "pass tb.float32 or its name",
)
def dtype_str() -> Any:
    return tb.zeros(3, dtype="float33")


@wrong(
    ArgumentError,
    "the data does not form a tensor: list with rows of different",
    "numbers, or nested lists of equal lengths",
    "pad rows to one length, and turn words into numbers",
)
def ragged() -> Any:
    return tb.tensor([[1, 2], [3]])


@wrong(
    DTypeError,
    "subtract of bool",
    "an integer, float or complex dtype",
    "cast it first: x.astype(tb.float32)",
)
def bool_sub() -> Any:
    return tb.tensor([True]) - tb.tensor([True])


@wrong(
    DTypeError, "bitwise_and of float32", "an integer or boolean dtype", "cast it first: x.astype(tb.int64)"
)
def bitand_float() -> Any:
    return X & X


@wrong(DTypeError, "bitwise_left_shift of float32", "an integer dtype", "cast it first: x.astype(tb.int64)")
def float_shift() -> Any:
    return X << 1


@wrong(
    DeviceError,
    "there is no device 'cuda'",
    "'cpu'",
    "choose where compiled code runs with tb.jit(f, target=...)",
)
def to_cuda() -> Any:
    return X.to("cuda")


@wrong(
    GradientError,
    "backward through reduce_sum a second time: what it kept for the",
    "one backward pass per forward pass",
    "pass retain_graph=True to the first backward(), or run the",
)
def second_backward() -> Any:
    a = leaf()
    y = (a * a).sum()
    y.backward()
    y.backward()


@wrong(
    GradientError,
    "a leaf tensor that requires a gradient was changed in place",
    "leaves keep the value that the gradient is taken at",
    "change it under tb.no_grad(), or change a copy: x.clone()",
)
def inplace_leaf() -> Any:
    a = leaf()
    a += 1


@wrong(
    GradientError,
    "a tensor that the gradient of mul needs was changed in place",
    "values kept for the backward pass stay as they were in the",
    "write `x = x + 1` instead of `x += 1`, or clone() the tensor",
)
def inplace_kept() -> Any:
    a = leaf()
    y = a * 2
    z = (y * y).sum()
    y.add_(1)
    z.backward()


@wrong(
    GradientError,
    "backward() from a tensor of shape (3,)",
    "a single element",
    "reduce it first (loss.sum().backward()), or pass the cotangent:",
)
def bw_nonscalar() -> Any:
    (leaf() * 2).backward()


@wrong(
    GradientError,
    "backward() from a tensor that no gradient flows through",
    "a tensor computed from one with requires_grad=True, outside",
    "set requires_grad=True on the leaves, or remove detach() and",
)
def bw_nograd() -> Any:
    X.sum().backward()


@wrong(
    GradientError,
    "backward(gradient) of shape (2,)",
    "the tensor's shape (3,)",
    "pass one cotangent per element of the tensor",
)
def bw_gradshape() -> Any:
    (leaf() * 2).backward(tb.ones((2,)))


@wrong(
    GradientError,
    "numpy() of a tensor that requires a gradient would lose its",
    "a tensor without a history",
    "x.detach().numpy()",
)
def numpy_grad() -> Any:
    leaf().numpy()


@wrong(
    DTypeError,
    "a tensor of int64 cannot require a gradient",
    "a float or complex dtype",
    "cast it first: x.float().requires_grad_()",
)
def reqint() -> Any:
    tb.tensor([1, 2]).requires_grad_()


@wrong(
    GradientError,
    "requires_grad can be changed for leaves only",
    "a tensor that was not computed from others, and not a view",
    "x.detach().requires_grad_()",
)
def req_nonleaf() -> Any:
    (leaf() * 2).requires_grad_(False)


@wrong(
    ArgumentError,
    "a gradient float32[2] for a tensor float32[3]",
    "the same dtype and shape",
    "cast or reshape the gradient, or set it to None",
)
def gradset() -> Any:
    a = leaf()
    a.grad = tb.ones((2,))


@wrong(
    GradientError,
    "register_hook() on a tensor that requires no gradient",
    "a tensor that backward() reaches",
    "x.requires_grad_()",
)
def hook_none() -> Any:
    X.register_hook(lambda q: q)


@wrong(
    GradientError,
    "a hook returned int for a gradient float32[3]",
    "None, or a tensor of the gradient's dtype and shape",
    "return nothing to leave the gradient as it is",
)
def hook_badret() -> Any:
    a = leaf()
    y = a * 2
    y.register_hook(lambda q: 3)
    y.sum().backward()


@wrong(
    GradientError,
    "a hook returned float32[2, 2] for a gradient float32[3]",
    "None, or a tensor of the gradient's dtype and shape",
    "return nothing to leave the gradient as it is",
)
def hook_badshape() -> Any:
    a = leaf()
    y = a * 2
    y.register_hook(lambda q: tb.ones((2, 2)))
    y.sum().backward()


@wrong(
    GradientError,
    "backward(inputs=) with a tensor that requires no gradient",
    "tensors that the result was computed from, with",
    "x.requires_grad_() before the forward pass",
)
def bw_inputs_noreq() -> Any:
    a = leaf()
    y = a * 2
    y.sum().backward(inputs=[X])


@wrong(ArgumentError, "item() of a tensor of shape (3,)", "exactly one element", "index it, or use tolist()")
def item_many() -> Any:
    X.item()


@wrong(ArgumentError, "int() of a tensor of shape (3,)", "exactly one element", "index it, or use tolist()")
def int_many() -> Any:
    int(X)


@wrong(
    ArgumentError,
    "bool() of a tensor of shape (3,)",
    "exactly one element",
    "reduce it first: any(), all(), sum()",
)
def bool_many() -> Any:
    bool(X)


@wrong(
    DTypeError,
    "float() of a tensor of complex64",
    "a real number",
    "take its real or imaginary part: x.real, x.imag",
)
def float_complex() -> Any:
    float(tb.tensor(1j))


@wrong(
    DTypeError,
    "len() of a tensor without dimensions",
    "at least one dimension",
    "x.size counts its elements, x.reshape(1) gives it a dimension",
)
def len0() -> Any:
    len(tb.tensor(1.0))


@wrong(
    DTypeError,
    "iteration over a tensor without dimensions",
    "at least one dimension",
    "x.item() is its number, x.reshape(1) gives it a dimension",
)
def iter0() -> Any:
    list(tb.tensor(1.0))


@wrong(
    ArgumentError,
    "from_dlpack of int",
    "an object with __dlpack__",
    "tb.asarray takes numbers, lists and arrays",
)
def from_dlpack() -> Any:
    return tb.from_dlpack(5)


@wrong(
    ShapeError,
    "einsum 'ij,jk->ik': 'j' has sizes 4 and 3",
    "one size per letter",
    "give axes of different sizes different letters",
)
def einsum() -> Any:
    return tb.einsum("ij,jk->ik", MATRIX, MATRIX)


@wrong(DTypeError, "take with indices of float32", "an integer dtype", "indices.long()")
def take_f() -> Any:
    return tb.take(X, X)


@wrong(
    ArgumentError,
    "topk with k=9 along an axis of size 3",
    "0 <= k <= 3",
    "take min(k, x.shape[axis]), or name another axis",
)
def topk() -> Any:
    return tb.topk(X, 9)


@wrong(ArgumentError, "arange with a step of 0", "a step that is not 0", "tb.full repeats one number")
def arange() -> Any:
    return tb.arange(0, 3, 0)


@wrong(
    ShapeError,
    "a tensor of shape (-1,)",
    "sizes that are not negative",
    "only reshape works a size out from -1",
)
def zeros_neg() -> Any:
    return tb.zeros((-1,))


@wrong(
    DTypeError,
    "add in place: a result of float32 in a tensor of int32",
    "a dtype that it casts to without loss of kind",
    "x = x + y, which makes a new tensor",
)
def iadd_dtype() -> Any:
    return tb.ones((3,), dtype=tb.int32).__iadd__(0.5)


@wrong(
    ShapeError,
    "add in place: a result of shape (2, 3) in a tensor of shape (3,)",
    "the tensor's own shape",
    "x = x + y, which makes a new tensor",
)
def iadd_shape() -> Any:
    return tb.ones((3,)).__iadd__(tb.ones((2, 3)))


@wrong(
    ShapeError,
    "a value of shape (3,) written to a part of shape (2,)",
    "a value that broadcasts to that shape",
    "reshape the value, or write to a part of its shape",
)
def setitem_shape() -> Any:
    return X.clone().__setitem__(slice(0, 2), tb.ones((3,)))


@wrong(
    StateError,
    "a write through broadcast: several elements of the view are one",
    "a view in which every element stands alone",
    "clone() the view before writing to it",
)
def expand_write() -> Any:
    return tb.broadcast_to(tb.ones((1, 3)), (2, 3)).add_(1)


@wrong(
    ArgumentError,
    "a singular matrix has no inverse",
    "a square matrix of full rank",
    "tb.linalg.lstsq or tb.linalg.pinv for matrices of lower rank",
)
def linalg_singular() -> Any:
    return tb.linalg.inv(tb.zeros((2, 2)))


@wrong(
    DTypeError,
    "uint64 and int64 have no common dtype",
    "a dtype that holds both",
    "x.astype(tb.int64) or x.astype(tb.float64)",
)
def np_mix_promo() -> Any:
    return tb.tensor([1], dtype=tb.uint64) + tb.tensor([1], dtype=tb.int64)


@wrong(
    ArgumentError,
    "the number 1000 does not fit into int8",
    "-128 <= number <= 127",
    "cast the tensor to a wider dtype first",
)
def py_int_overflow() -> Any:
    return tb.tensor([1], dtype=tb.int8) + 1000
