"""Small parts of the engine: windows, tables of operators, attention with its scores, nested networks."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.base.errors import TrilobiteError
from trilobite.inference.operators.registry import Row, find, operator, rows
from trilobite.inference.operators.registry import rows as table

RNG = np.random.default_rng(6)
convert: Any = importlib.import_module("trilobite.inference.formats.keras.convert")
WINDOWS = {  # as sums of cosines
    "HannWindow": lambda t: 0.5 - 0.5 * np.cos(2 * np.pi * t),
    "HammingWindow": lambda t: 25 / 46 - 21 / 46 * np.cos(2 * np.pi * t),
    "BlackmanWindow": lambda t: 0.42 - 0.5 * np.cos(2 * np.pi * t) + 0.08 * np.cos(4 * np.pi * t),
}


def run(made: Any, *values: np.ndarray) -> list[np.ndarray]:
    names = [i.name for i in made.graph.input]
    found = tb.inference.load(made).run(dict(zip(names, values, strict=True)))
    return [np.asarray(found[o.name]) for o in made.graph.output]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [2, 7, 16])
def test_windows(name: str, periodic: int, size: int) -> None:
    made = model([node(name, "n", "y", periodic=periodic)], {}, ["y"], {"n": np.asarray(size)}, opset=17)
    (found,) = run(made)
    wanted = WINDOWS[name](np.arange(size) / (size if periodic else size - 1))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    if not periodic and name != "HammingWindow":
        numpys = {"HannWindow": np.hanning, "BlackmanWindow": np.blackman}[name](size)
        np.testing.assert_allclose(found, numpys, atol=1e-6)


def test_what_rows_of_the_table_say() -> None:
    """Operators that the host runs, or that have graphs inside, give values of the host unless said."""
    taken: dict[Any, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trilobite.inference.operators.registry.rows", taken)
        for gives, host, subgraphs in [("", h, s) for h in (False, True) for s in (False, True)] + [
            ("x", True, False)
        ]:
            operator(f"Op{gives}{host}{subgraphs}", host=host, subgraphs=subgraphs, gives=gives)(
                lambda node: None
            )
    kinds = {name: family[0].gives for (_, name), family in taken.items()}
    assert kinds == {
        "OpFalseFalse": "same", "OpFalseTrue": "host", "OpTrueFalse": "host", "OpTrueTrue": "host",
        "OpxTrueFalse": "x",
    }  # fmt: skip
    for family in rows.values():
        assert [r.since for r in family] == sorted(r.since for r in family)


def test_the_newest_row_that_is_not_newer() -> None:
    run(model([node("Abs", "x", "y")], {"x": (np.float32, (2,))}, ["y"]), np.ones(2, np.float32))  # fills it
    family = [("", name) for (domain, name), found in table.items() if len(found) > 1 and not domain]
    assert family
    for domain, name in family:
        found = table[domain, name]
        for before, row in zip([None, *found], found, strict=False):
            assert find(domain, name, row.since) is row
            earlier = find(domain, name, row.since - 1)
            assert earlier is (before if before is None or before.since < row.since else earlier)
    assert find("", "NoSuchOperator", 99) is None and isinstance(found[0], Row)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("cap", [0.0, 1.5])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_shows_its_scores_with_fewer_heads_of_keys(mode: int, cap: float, causal: int) -> None:
    q = RNG.standard_normal((2, 4, 3, 5)).astype(np.float32)
    k, v = (RNG.standard_normal((2, 2, 6, 5)).astype(np.float32) for _ in range(2))
    bias = RNG.standard_normal((3, 6)).astype(np.float32)
    attributes: dict[str, Any] = {"qk_matmul_output_mode": mode, "is_causal": causal}
    if cap:
        attributes["softcap"] = cap
    made = model(
        [node("Attention", "q k v bias", "y pk pv s", **attributes)],
        {"q": (np.float32, q.shape), "k": (np.float32, k.shape), "v": (np.float32, v.shape),
         "bias": (np.float32, bias.shape)},
        ["y", "s"], opset=23,
    )  # fmt: skip
    found, shown = run(made, q, k, v, bias)
    wide_k, wide_v = (np.repeat(x.astype(np.float64), 2, axis=1) for x in (k, v))
    raw = q @ wide_k.swapaxes(-1, -2) / math.sqrt(5)
    capped = np.tanh(raw / cap) * cap if cap else raw
    masked = capped + bias
    if causal:
        masked = np.where(np.tri(3, 6, dtype=bool), masked, -np.inf)
    weights = np.exp(masked - masked.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, weights @ wide_v, rtol=1e-4, atol=1e-5)
    stages = {0: None, 1: capped, 2: masked, 3: weights}
    if stages[mode] is not None:
        np.testing.assert_allclose(shown, stages[mode], rtol=1e-4, atol=1e-5)
    elif not cap:
        np.testing.assert_allclose(shown, raw, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [convert._DEEPEST, convert._DEEPEST + 1])
def test_networks_are_nested_so_deep_and_no_deeper(depth: int) -> None:
    """Each network inside another counts one more."""
    reached: list[int] = []

    class Watched(convert.Network):  # type: ignore[misc]
        def run(self, kind: Any, config: Any, source: Any, xs: Any) -> Any:
            reached.append(self.depth)
            return self.apply("Sequential", {}, source, xs) if len(reached) <= depth else xs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "Network", Watched)
        outermost = Watched({}, {}, "here", 0)
        if depth > convert._DEEPEST:
            with pytest.raises(TrilobiteError, match=f"nested more than {convert._DEEPEST} deep"):
                outermost.run("Sequential", {}, None, [])
        else:
            outermost.run("Sequential", {}, None, [])
            assert reached == list(range(depth + 1))
