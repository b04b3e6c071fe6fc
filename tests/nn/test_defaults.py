"""Defaults of layers, functions, optimisers and schedules are PyTorch's.

`torch_defaults.json` has what the signatures of PyTorch 2.13.0 say, of every parameter that has a default
here, too. A default that is another number gives another network without a word.
"""

from __future__ import annotations

import inspect
import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError

TABLE: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("torch_defaults.json").read_text())


@pytest.mark.parametrize("name", TABLE)
def test_defaults_are_those_that_people_know(name: str) -> None:
    parameters = inspect.signature(attrgetter(name)(tb)).parameters
    found = {parameter: parameters[parameter].default for parameter in TABLE[name]}
    wanted = TABLE[name]
    assert {p: list(v) if isinstance(v, tuple) else v for p, v in found.items()} == wanted
    assert [isinstance(v, bool) for v in found.values()] == [isinstance(v, bool) for v in wanted.values()]


def test_the_table_is_long() -> None:
    assert len(TABLE) > 200


def test_the_base_of_recurrent_layers_makes_any_of_them() -> None:
    x = tb.rand(4, 2, 3)
    for mode, layer, more in (
        ("LSTM", tb.nn.LSTM, {}),
        ("GRU", tb.nn.GRU, {}),
        ("RNN_TANH", tb.nn.RNN, {}),
        ("RNN_RELU", tb.nn.RNN, {"nonlinearity": "relu"}),
    ):
        known = layer(3, 5, 2, bidirectional=True, **more)
        made = tb.nn.RNNBase(mode, 3, 5, 2, bidirectional=True)
        made.load_state_dict(known.state_dict())
        assert isinstance(known, tb.nn.RNNBase) and known.mode == made.mode == mode
        assert bool(tb.all(known(x)[0] == made(x)[0]))
    with pytest.raises(ArgumentError, match="a recurrent layer of mode 'LSTMCELL'"):
        tb.nn.RNNBase("LSTMCELL", 3, 5)


def test_a_batch_norm_in_step_takes_its_group_where_pytorch_has_it() -> None:
    layer = tb.nn.SyncBatchNorm(4, 1e-4, 0.2, True, True, None, tb.float64, bias=False)
    assert (layer.eps, layer.momentum, layer.bias, layer.weight.dtype) == (1e-4, 0.2, None, tb.float64)
