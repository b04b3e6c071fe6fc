"""Conversions between placements: which collective a partial sum takes, by what is split already."""

from __future__ import annotations

import numpy as np

from trilobite.cluster.sharding.conversion import Converter, Costs
from trilobite.cluster.sharding.micro import MicroConverter
from trilobite.cluster.sharding.placements import Placement
from trilobite.ir.types import TensorType

MESH = (2, 2)
T = TensorType((8, 12), np.dtype(np.float64))


def names(source: Placement, target: Placement) -> list[str]:
    return [s.primitive for s in Converter(MESH, (0, 1), Costs()).steps(T, source, target)]


def test_a_partial_sum_that_is_to_be_split_is_scattered() -> None:
    """Also in other units than those it had: nothing of it is split yet."""
    source = Placement(("sum", None), (1, 1))
    assert names(source, Placement((0, None), (1, 1))) == ["cluster_reduce_scatter"]
    assert names(source, Placement((0, None), (2, 1))) == ["cluster_reduce_scatter"]
    assert names(source, Placement((None, None), (1, 1))) == ["cluster_all_reduce"]


def test_one_that_is_split_already_is_scattered_only_in_its_units() -> None:
    """The outer side has split dimension 0; the inner one holds partial sums of its parts."""
    equal = Placement((0, "sum"), (2, 1)), Placement((0, 0), (2, 1))
    assert names(*equal) == ["cluster_reduce_scatter"]
    others = names(Placement((0, "sum"), (2, 1)), Placement((0, 0), (1, 1)))
    assert "cluster_reduce_scatter" not in others and others[0] == "cluster_all_reduce"
    late = names(Placement(("sum", 0), (1, 1)), Placement((0, 0), (1, 1)))
    assert late[0] != "cluster_reduce_scatter"  # an inner side has split it before the outer one


def test_micro_batches_begin_within_what_a_rank_has() -> None:
    """Side 1 has split the rows before; micro-batches then split the columns of a rank's own rows."""
    for at, data in (((0, 0, 0), 0), ((0, 1, 0), 1)):
        converter = MicroConverter((2, 2, 1), at, Costs(), 1)
        source, target = Placement((None, 0, None), (1, 1)), Placement((1, 0, None), (1, 1))
        *_, last = converter.steps(T, source, target)
        assert last.attributes["micros"] == ((0, 0), (0, 6)), data
        whole = Placement((None, None, None), (1, 1))
        *_, last = converter.steps(T, whole, Placement((0, None, None), (1, 1)))
        assert last.attributes["micros"] == ((0, 0), (4, 0))
