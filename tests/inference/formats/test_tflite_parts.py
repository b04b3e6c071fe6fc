"""Steps of TFLite's windows by the slots of its schema, and numbers of operators at their bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trilobite.base.errors import FileError
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tflite import layers
from trilobite.inference.formats.tflite.file import _subgraph

# Of the schema: slots of stride and dilation in the order of axes, padding, depth multiplier, activation.
WINDOWS = {
    "conv": (layers._conv, (2, 1), (5, 4), 3, (8, 3, 5, 6)),
    "depthwise": (layers._depthwise, (2, 1), (6, 5), 4, (1, 3, 5, 6)),
    "conv 3d": (layers._conv_3d, (1, 3, 2), (5, 7, 6), 4, (2, 3, 5, 6, 8)),
}


def converter(options: dict[int, int], weight: tuple[int, ...], channels: int, made: dict[str, Any]) -> Any:
    def conv(x: Any, w: Any, bias: Any, kernel: Any, **given: Any) -> str:
        made.update(given, kernel=tuple(kernel))
        return "t"

    return SimpleNamespace(
        info=lambda o, i: SimpleNamespace(shape=(2, 9, 9, channels) if i == 0 else weight),
        option=lambda o, slot, kind, default=0: options.get(slot, default),
        x=lambda o, i: "x", weight=lambda o, i, order: made.update(order=order), bias=lambda o, i: "b",
        layers=SimpleNamespace(conv=conv), out=lambda o, t, fused: made.update(fused=fused),
    )  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_steps_of_windows_stand_in_the_order_of_axes(name: str) -> None:
    rule, strides, dilations, fused, weight = WINDOWS[name]
    made: dict[str, Any] = {}
    rule(converter({slot: slot + 10 for slot in range(1, 9)}, weight, 6, made), SimpleNamespace(name=name))  # type: ignore[arg-type]
    assert made["strides"] == [s + 10 for s in strides] and made["dilations"] == [s + 10 for s in dilations]
    assert made["padding"] == "SAME" and made["fused"] == fused
    rule(converter({0: 1}, weight, 6, made), SimpleNamespace(name=name))  # type: ignore[arg-type]
    assert made["padding"] == "VALID" and set(made["strides"]) == set(made["dilations"]) == {1}
    for wrong in (0, -1, 1 << 20):
        with pytest.raises(Unknown, match="with steps"):
            rule(converter({strides[0]: wrong}, weight, 6, made), SimpleNamespace(name=name))  # type: ignore[arg-type]
    rule(converter({strides[0]: (1 << 20) - 1}, weight, 6, made), SimpleNamespace(name=name))  # type: ignore[arg-type]


@pytest.mark.parametrize(("channels", "multiplier", "groups"), [(6, 1, 6), (-1, 1, 6), (-1, 2, 3), (0, 0, 6)])
def test_groups_of_a_depthwise_convolution(channels: int, multiplier: int, groups: int) -> None:
    made: dict[str, Any] = {}
    given = converter({3: multiplier}, (1, 3, 5, 6), channels, made)
    layers._depthwise(given, SimpleNamespace(name="d"))  # type: ignore[arg-type]
    assert made["groups"] == groups and made["kernel"] == (3, 5)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_operators_have_codes_of_the_table(code: int) -> None:
    operator = SimpleNamespace(
        number=lambda slot, kind: code, ints=lambda slot: [], table=lambda slot: None
    )  # fmt: skip
    graph: Any = SimpleNamespace(
        tables=lambda slot: [operator] if slot == 3 else [], text=lambda slot: "g", ints=lambda slot: []
    )
    if code < 2:
        found = _subgraph(graph, ["ADD", "MUL"], [], memoryview(b""), "here")
        assert [o.name for o in found.operators] == [("ADD", "MUL")[code]]
        return
    with pytest.raises(FileError, match=f"an operator has code {code}"):
        _subgraph(graph, ["ADD", "MUL"], [], memoryview(b""), "here")
