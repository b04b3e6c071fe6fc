"""Embedding layers: tables whose rows are learnt."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.functional.calling import run, write
from trilobite.framework.nn.layers.base import shown
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.settings import check_sizes
from trilobite.framework.ops.creation import zeros
from trilobite.framework.tensor import Tensor
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table


class _Table(Module):
    """A table of rows; the row padding_idx starts at 0 and stays there."""

    weight: Parameter

    def _make(
        self, rows: int, features: int, padding_idx: int | None, weight: Tensor | None, dtype: Any
    ) -> None:
        check_sizes(type(self).__name__, num_embeddings=rows, embedding_dim=features)
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise ArgumentError(
                f"{type(self).__name__}(padding_idx={padding_idx}) of {rows} rows",
                where=user_location(),
                expected=f"{-rows} <= padding_idx < {rows}",
            )
        self.num_embeddings, self.embedding_dim = rows, features
        self.padding_idx = None if padding_idx is None else padding_idx % rows
        self.weight = Parameter(zeros((rows, features), dtype=dtype) if weight is None else weight)
        if self.weight.shape != (rows, features):
            raise ArgumentError(
                f"a table of shape {tuple(self.weight.shape)}",
                where=user_location(),
                expected=f"({rows}, {features})",
            )
        if weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal rows, and zeros at padding_idx."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            write(self.weight, run(_cleared, self.weight, row=self.padding_idx))

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **settings: Any) -> Any:
        """A layer around a table that is there already; frozen unless said otherwise."""
        rows, features = embeddings.shape
        out = cls(rows, features, _weight=embeddings, **settings)
        out.weight.requires_grad_(not freeze)
        return out


def _cleared(table_of_rows: Value, row: int) -> Value:
    width = table_of_rows.shape[1]
    zeros_there = table["full"](shape=(1, width), dtype=table_of_rows.dtype, value=0)
    return table["update_slice"](
        table_of_rows, zeros_there, start=(row, 0), stop=(row + 1, width), step=(1, 1)
    )


class Embedding(_Table):
    """weight[indices]."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        dtype: Any = None,
    ) -> None:
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = sparse
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, dtype)
        self.weight.requires_grad_(not _freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        )

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, " + shown(self, "padding_idx", "max_norm")


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows of each bag of indices."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: Any = None,
    ) -> None:
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.include_last_offset = mode, include_last_offset
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, " + shown(self, "mode", "padding_idx")
