"""Wrong uses of layers, losses, optimisers, schedules, data and random numbers."""

from __future__ import annotations

from typing import Any

import trilobite as tb
from trilobite.base.errors import ArgumentError, DataError, DTypeError, IndexingError, ShapeError, StateError

from .wrong_use import X, leaf, wrong


@wrong(
    ShapeError,
    "linear of an input of shape (3, 5) with a weight of shape (2, 4)",
    "a last axis of 4 features",
    "build the layer for the input's last axis, or reshape the input",
)
def nn_linear() -> Any:
    return tb.nn.Linear(4, 2)(tb.ones((3, 5)))


@wrong(
    ShapeError,
    "conv2d of 4 channels in 1 groups, weight of shape (8, 3, 3, 3)",
    "3 channels; groups divide the 8 outputs",
    "channels stand in axis 1 of a batch: move them there, or build",
)
def conv_ch() -> Any:
    return tb.nn.Conv2d(3, 8, 3)(tb.ones((1, 4, 8, 8)))


@wrong(
    ShapeError,
    "conv: the kernel spans 9 elements along spatial axis 0, the",
    "at least 9 elements: input 4, padding 0 and 0",
    "pad the input more, use a smaller kernel or less dilation",
)
def conv_small() -> Any:
    return tb.nn.Conv2d(3, 8, 9)(tb.ones((1, 3, 4, 4)))


@wrong(
    ShapeError,
    "Conv2d of shape (8, 8)",
    "3 or 4 axes: perhaps a batch, channels, and 2 of space",
    "add the missing axes: x[None], or use the layer for another",
)
def conv_rank() -> Any:
    return tb.nn.Conv2d(3, 8, 3)(tb.ones((8, 8)))


@wrong(DTypeError, "embedding of float32 indices", "integers", "cast them: indices.long()")
def embedding_idx_float() -> Any:
    return tb.nn.Embedding(5, 2)(X)


@wrong(
    IndexingError,
    "embedding: an index 7 of a table with 5 rows",
    "0 <= index < 5",
    "build the table with more rows, or map unknown tokens to one of",
)
def embedding_oob() -> Any:
    return tb.nn.Embedding(5, 2)(tb.tensor([7]))


@wrong(
    ShapeError,
    "cross_entropy of shape (3, 4) with a target of shape (2,)",
    "classes of shape (3,), or probabilities of shape (3, 4)",
    "classes stand in axis 1 of the scores; give one target per",
)
def ce_classes() -> Any:
    return tb.nn.functional.cross_entropy(tb.ones((3, 4)), tb.tensor([0, 1]))


@wrong(
    IndexingError,
    "cross_entropy: class 9 of 4",
    "0 <= class < 4, or -100",
    "give the scores a column per class, or mark the place with",
)
def ce_oob() -> Any:
    return tb.nn.functional.cross_entropy(tb.ones((2, 4)), tb.tensor([0, 9]))


@wrong(
    ShapeError,
    "mse_loss of shapes (3,) and (4,)",
    "equal shapes",
    "reshape the target, or broadcast it explicitly",
)
def mse() -> Any:
    return tb.nn.functional.mse_loss(tb.ones((3,)), tb.ones((4,)))


@wrong(
    ShapeError,
    "batch_norm in training of shape (1, 4)",
    "more than one value per channel",
    "a larger batch, or module.eval()",
)
def bn_1_value() -> Any:
    return tb.nn.BatchNorm1d(4)(tb.ones((1, 4)))


@wrong(
    ShapeError,
    "BatchNorm1d of shape (2, 5)",
    "2 or 3 axes, with 4 channels",
    "channels stand in axis 1: move them there, or build the layer",
)
def bn_ch() -> Any:
    return tb.nn.BatchNorm1d(4)(tb.ones((2, 5)))


@wrong(ArgumentError, "Dropout(p=1.5)", "0 <= p <= 1", "p is the probability that an element is dropped")
def dropout_p() -> Any:
    return tb.nn.Dropout(1.5)


@wrong(
    StateError,
    "Module has no forward",
    "a class that says what its call computes",
    "define forward(self, ...)",
)
def mod_noforward() -> Any:
    return tb.nn.Module()(X)


@wrong(
    StateError,
    "the state dict does not fit Linear; nothing was changed",
    "every name of the module's state_dict(), with its shape and",
    "load_state_dict(..., strict=False) passes over missing and",
)
def lsd_missing() -> Any:
    return tb.nn.Linear(2, 2).load_state_dict({})


@wrong(
    StateError,
    "the state dict does not fit Linear; nothing was changed",
    "every name of the module's state_dict(), with its shape and",
    "load_state_dict(..., strict=False) passes over missing and",
)
def lsd_unexpected() -> Any:
    return tb.nn.Linear(2, 2).load_state_dict({**tb.nn.Linear(2, 2).state_dict(), "z": X})


@wrong(
    StateError,
    "the state dict does not fit Linear; nothing was changed",
    "every name of the module's state_dict(), with its shape and",
    "load the state of a module made with the same arguments",
)
def lsd_shape() -> Any:
    return tb.nn.Linear(2, 2).load_state_dict(tb.nn.Linear(3, 2).state_dict())


@wrong(
    ArgumentError,
    "load_state_dict of list",
    "a mapping from names to tensors",
    "pass what state_dict() or tb.load returned",
)
def lsd_type() -> Any:
    return tb.nn.Linear(2, 2).load_state_dict([1])


@wrong(
    ArgumentError,
    "SGD: there are no parameters",
    "at least one tensor",
    "an iterator that was used up before is empty: pass",
)
def opt_none() -> Any:
    return tb.optim.SGD([], lr=0.1)


@wrong(ArgumentError, "SGD: lr is -0.1", "lr >= 0", "pass another lr, or leave it away for the default")
def opt_neg() -> Any:
    return tb.optim.SGD(tb.nn.Linear(2, 2).parameters(), lr=-0.1)


@wrong(
    ArgumentError,
    "an optimiser: the parameters are one Tensor",
    "an iterable of tensors, for example model.parameters()",
    "put it into a list: [w]",
)
def opt_tensor() -> Any:
    return tb.optim.SGD(leaf(), lr=0.1)


@wrong(
    ArgumentError,
    "SGD: parameter 0 is the result of a computation",
    "leaves: tensors that were made, not computed",
    "pass x.detach().requires_grad_()",
)
def opt_nonleaf() -> Any:
    return tb.optim.SGD([leaf() * 2], lr=0.1)


@wrong(
    ArgumentError,
    "Adam: beta1 is 1.0",
    "beta1 in [0, 1)",
    "pass another beta1, or leave it away for the default",
)
def opt_betas() -> Any:
    return tb.optim.Adam([leaf()], betas=(1.0, 2.0))


@wrong(
    StateError,
    "the state does not fit Adam: it has []",
    "['param_groups', 'state']",
    "make it with the same parameters and settings as the one whose",
)
def opt_lsd() -> Any:
    return tb.optim.Adam([leaf()]).load_state_dict({})


@wrong(
    ArgumentError, "StepLR: step_size is 0", "an integer of at least 1", "step_size counts calls of step()"
)
def sched_neg() -> Any:
    return tb.optim.StepLR(tb.optim.SGD([leaf()], lr=0.1), 0)


@wrong(
    ArgumentError,
    "StepLR of a Tensor",
    "an optimiser",
    "pass the optimiser first: StepLR(tb.optim.SGD(parameters,",
)
def sched_notopt() -> Any:
    return tb.optim.StepLR(X, 3)


@wrong(ArgumentError, "Loader: batch_size is 0", "an integer >= 1", "pass a whole number")
def loader_bs() -> Any:
    return tb.data.Loader(tb.data.ArrayDataset(X, X), batch_size=0)


@wrong(
    ShapeError,
    "ArrayDataset: the arrays differ in length: shapes [(3,), (4,)]",
    "the same first extent everywhere",
    "cut the arrays to one length: a row of each makes an item",
)
def ds_lengths() -> Any:
    return tb.data.ArrayDataset(X, tb.ones((4,)))


@wrong(
    StateError,
    "loader state has epoch = None",
    "what Loader.state_dict() returned",
    "save loader.state_dict() beside the model, and load that",
)
def loader_state() -> Any:
    return tb.data.Loader(tb.data.ArrayDataset(X, X), batch_size=2).load_state_dict({})


@wrong(
    IndexingError,
    "ArrayDataset: index 9 is out of range",
    "-3 <= index < 3",
    "items count from 0 to len(data) - 1",
)
def ds_idx() -> Any:
    return tb.data.ArrayDataset(X)[9]


@wrong(
    ArgumentError,
    "kfold: k = 5 folds of 3 items",
    "2 <= k <= 3",
    "use fewer folds: each holds out at least one item",
)
def kfold() -> Any:
    return list(tb.data.kfold(3, 5))


@wrong(
    DataError,
    "random_split: sizes [1, 5] add up to 6",
    "3, the length of the dataset",
    "give fractions such as [0.9, 0.1]",
)
def split() -> Any:
    return tb.data.random_split(tb.data.ArrayDataset(X), [1, 5])


@wrong(
    ArgumentError,
    "randint from 5 below 5",
    "low < high",
    "high is not among the numbers drawn: randint(0, 6, shape) gives",
)
def randint() -> Any:
    return tb.randint(5, 5, (2,))


@wrong(ArgumentError, "a seed 'a'", "an integer of 64 bits", "hash other things to an integer first")
def seed() -> Any:
    return tb.manual_seed("a")


NONE = "look where it comes from: a function that returns nothing"


@wrong(ArgumentError, "Linear: input is None", "a tensor, an array or numbers", NONE)
def no_input() -> Any:
    return tb.nn.Linear(2, 2)(None)


@wrong(ArgumentError, "cross_entropy: target is None", "a tensor, an array or numbers", NONE)
def no_target() -> Any:
    return tb.nn.functional.cross_entropy(tb.ones((2, 3)), None)


@wrong(ArgumentError, "linear: operand 1 is None", "a tensor, an array or numbers", NONE)
def no_weight() -> Any:
    return tb.nn.functional.linear(X, None)


@wrong(ArgumentError, "relu: operand 0 is None", "a tensor, an array or numbers", NONE)
def no_activation() -> Any:
    return tb.nn.functional.relu(None)


@wrong(ArgumentError, "Conv2d: input is of type dict", "a tensor, an array or numbers", "tb.asarray makes")
def a_dict_for_a_picture() -> Any:
    return tb.nn.Conv2d(3, 8, 3)({"picture": X})


@wrong(ShapeError, "the size 'three' of an axis", "an integer", "int() makes one")
def a_size_in_words() -> Any:
    return tb.zeros((2, "three"))
