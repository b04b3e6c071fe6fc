"""Linear layers whose inputs and weights are both split: in two dimensions on a square of ranks (SUMMA), in
three on a cube.

What enters and what leaves is each rank's own block, so the loss that follows is the sum of what the ranks
make of their blocks. Sizes divide evenly. In two dimensions rows of the batch are split over the first side
and features over the second, before and after a layer. In three, rows are split over x and then y, features
over z; after a layer rows over x and then z, features over y: the next layer swaps the last two names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group
from trilobite.cluster.meshes import Mesh
from trilobite.cluster.splits import Split, Step, Turned
from trilobite.framework.nn.layers.linear import Linear
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.tensor import Tensor


def _block(array: Any, axis: int, groups: tuple[Group, ...]) -> Any:
    """This rank's part along an axis that is split over one group, then each part over the next."""
    for g in groups:
        if array.shape[axis] % g.size:
            raise ArgumentError(
                f"{array.shape[axis]} features over {g.size} ranks",
                where=user_location(),
                expected=f"a multiple of {g.size}",
            )
        array = np.split(array, g.size, axis=axis)[g.index]
    return array


def block(x: Any, rows: tuple[Group, ...], columns: tuple[Group, ...]) -> np.ndarray[Any, Any]:
    """This rank's block of an array: its first axis over some groups, its last over others."""
    return np.ascontiguousarray(_block(_block(np.asarray(x), 0, rows), -1, columns))


class SummaLinear(Module):
    """x·weightᵀ + bias on a square of ranks. In round k the k-th column of ranks gives its blocks of x to its
    row, the k-th row its blocks of the weights to its column.
    """

    def __init__(self, layer: Linear, mesh: Mesh, rows: str = "rows", columns: str = "columns") -> None:
        super().__init__()
        self.rows, self.columns = mesh[rows], mesh[columns]
        if self.rows.size != self.columns.size:
            raise ArgumentError(
                f"SUMMA on {self.rows.size} × {self.columns.size} ranks",
                where=user_location(),
                expected="a square",
            )
        self.inputs, self.outputs = layer.in_features, layer.out_features
        weight = layer.weight.detach().numpy().T  # inputs × outputs
        self.weight = Parameter(block(weight, (self.rows,), (self.columns,)))
        bias = None if layer.bias is None else layer.bias.detach().numpy()
        self.bias = None if bias is None else Parameter(_block(bias, 0, (self.columns,)))

    def splits(self) -> dict[str, tuple[Step, ...]]:
        columns = Split(self.columns, -1, self.outputs)
        return {"weight": (columns, Split(self.rows, 0, self.inputs), Turned()), "bias": (columns,)}

    def forward(self, input: Tensor) -> Tensor:
        out: Any = None
        for k in range(self.rows.size):
            a = c.broadcast(input, k, group=self.columns)
            b = c.broadcast(self.weight, k, group=self.rows)
            out = a @ b if out is None else out + a @ b
        result: Tensor = out if self.bias is None else out + c.share(self.bias, group=self.rows)
        return result


class CubeLinear(Module):
    """x·weightᵀ + bias on a cube of ranks: x is gathered over y, the weights over x, the products are summed
    over z and left split there.
    """

    def __init__(self, layer: Linear, mesh: Mesh, x: str = "x", y: str = "y", z: str = "z") -> None:
        super().__init__()
        self.x, self.y, self.z, self.others = mesh[x], mesh[y], mesh[z], mesh[x, z]
        self.inputs, self.outputs = layer.in_features, layer.out_features
        self.weight = Parameter(block(layer.weight.detach().numpy(), (self.y, self.x), (self.z,)))
        bias = None if layer.bias is None else layer.bias.detach().numpy()
        self.bias = None if bias is None else Parameter(_block(bias, 0, (self.y,)))

    def splits(self) -> dict[str, tuple[Step, ...]]:
        rows, part = Split(self.y, 0, self.outputs), Split(self.x, 0, self.outputs // self.y.size)
        return {"weight": (part, rows, Split(self.z, 1, self.inputs)), "bias": (rows,)}

    def forward(self, input: Tensor) -> Tensor:
        rows = c.all_gather(input, 0, group=self.y)
        weight = c.all_gather(self.weight, 0, group=self.x)
        out = c.reduce_scatter(rows @ weight.mT, 0, group=self.z)
        result: Tensor = out if self.bias is None else out + c.share(self.bias, group=self.others)
        return result
