"""Arguments have PyTorch's names and defaults, in layers and in functions."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import trilobite.framework.nn.functional as F
from trilobite.framework import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

# Old, of another device, or a hint that means nothing here.
LEFT_OUT = set(
    "self args kwargs device size_average reduce sparse enable_nested_tensor mask_check _stacklevel "
    "antialias _freeze is_causal generator min_value max_value out".split()
)


def parameters(fn: Any) -> dict[str, Any]:
    return {n: p.default for n, p in inspect.signature(fn).parameters.items()}


def layers() -> list[str]:
    return [n for n in nn.__all__ if isinstance(getattr(nn, n), type) and hasattr(torch.nn, n)]


def compare(name: str, ours: Any, theirs: Any) -> None:
    mine = parameters(ours)
    for parameter, default in parameters(theirs).items():
        if parameter in LEFT_OUT:
            continue
        assert parameter in mine, f"{name} has no {parameter}"
        if default is not inspect.Parameter.empty and not callable(default):
            assert mine[parameter] == default, f"{name}: {parameter} is {mine[parameter]}, not {default}"


@pytest.mark.parametrize("name", layers())
def test_layers(name: str) -> None:
    theirs = getattr(torch.nn, name)
    if name not in (
        "Module",
        "Parameter",
        "Sequential",
        "ModuleList",
        "ModuleDict",
        "ParameterList",
        "ParameterDict",
        "LSTM",
        "GRU",
        "RNN",
    ):
        compare(name, getattr(nn, name), theirs.__init__)


FUNCTIONS = [n for n in F.__all__ if hasattr(torch.nn.functional, n)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    theirs = getattr(torch.nn.functional, name)
    try:
        inspect.signature(theirs)
    except ValueError:
        pytest.skip("PyTorch's own has no signature")
    compare(name, getattr(F, name), theirs)


def test_nothing_common_is_missing() -> None:
    """What PyTorch has and this room has not, each with a reason."""
    absent = {
        n
        for n in dir(torch.nn)
        if isinstance(getattr(torch.nn, n), type) and issubclass(getattr(torch.nn, n), torch.nn.Module)
    } - set(nn.__all__)
    lazy = {n for n in absent if n.startswith("Lazy")}
    reasons = {
        "Container": "old",
        "NLLLoss2d": "old",
        "DataParallel": "many devices are another room",
        "SyncBatchNorm": "many devices are another room",
        "AdaptiveLogSoftmaxWithLoss": "rare",
        "CrossMapLRN2d": "old",
        "FractionalMaxPool2d": "rare",
        "FractionalMaxPool3d": "rare",
        "MultiLabelMarginLoss": "rare",
        "RNNBase": "a base class",
        "RNNCellBase": "a base class",
        "LinearCrossEntropyLoss": "a fusion, not a layer",
        "BufferDict": "rare",
    }
    assert absent - lazy <= set(reasons), sorted(absent - lazy - set(reasons))
