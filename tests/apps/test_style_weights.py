"""A feature network's weights: MATLAB's files written by scipy, hostile ones, and the other forms."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.apps.style import features
from trilobite.apps.style.matlab import load_mat
from trilobite.apps.style.weights import VGG19_PLACES, load_weights
from trilobite.base.errors import ArgumentError, FileError

scipy_io = pytest.importorskip("scipy.io")
RNG = np.random.default_rng(3)


@pytest.mark.parametrize("compressed", [False, True])
def test_everything_that_matlab_keeps_comes_back(tmp_path: Path, compressed: bool) -> None:
    cells = np.empty((1, 2), object)
    cells[0, 0], cells[0, 1] = RNG.standard_normal((2, 3)), "conv1_1"
    kept = {
        "plain": RNG.standard_normal((3, 4, 2, 5)).astype(np.float32),
        "whole": RNG.integers(-100, 100, (4, 3)).astype(np.int16),
        "cells": cells,
        "struct": {"name": "vgg", "deep": {"x": np.arange(6.0).reshape(2, 3)}},
        "empty": np.zeros((0, 0)),
    }
    scipy_io.savemat(tmp_path / "a.mat", kept, do_compression=compressed)
    found = load_mat(tmp_path / "a.mat")
    assert np.array_equal(found["plain"], kept["plain"]) and found["plain"].dtype == np.float32
    assert np.array_equal(found["whole"], kept["whole"]) and found["whole"].dtype == np.int16
    assert np.array_equal(found["cells"][0], cells[0, 0]) and found["cells"][1] == "conv1_1"
    assert found["struct"]["name"] == "vgg"
    assert np.array_equal(found["struct"]["deep"]["x"], np.arange(6.0).reshape(2, 3))
    assert found["empty"].size == 0


@pytest.mark.parametrize("old", [False, True])
def test_a_network_of_matconvnet_has_torchvisions_names(tmp_path: Path, old: bool) -> None:
    filters = RNG.standard_normal((3, 3, 5, 4)).astype(np.float32)
    bias = RNG.standard_normal((1, 4)).astype(np.float32)
    pair = np.empty((1, 2), object)
    pair[0, 0], pair[0, 1] = filters, bias
    inner: dict[str, Any] = {"filters": filters, "biases": bias} if old else {"weights": pair}
    layers = np.empty((1, 2), object)
    layers[0, 0] = {"type": "conv", "name": "conv2_2", **inner}
    layers[0, 1] = {"type": "relu", "name": "relu2_2"}
    scipy_io.savemat(tmp_path / "a.mat", {"layers": layers})
    found = load_weights(tmp_path / "a.mat")
    assert sorted(found) == ["features.7.bias", "features.7.weight"]
    assert found["features.7.weight"][1, 2, 0, 1] == filters[0, 1, 2, 1]
    assert np.array_equal(found["features.7.bias"], bias[0])


def test_places_are_those_of_the_zoo() -> None:
    network = tb.zoo.create("vgg19", initialise=False, classifier=False)
    named = {name.split(".")[1] for name, _ in network.named_parameters()}
    assert {str(place) for place in VGG19_PLACES.values()} == named and len(VGG19_PLACES) == 16


def test_hostile_files_are_refused_in_words(tmp_path: Path) -> None:
    scipy_io.savemat(tmp_path / "a.mat", {"x": RNG.standard_normal((8, 8)), "n": {"a": {"b": "c"}}})
    whole = (tmp_path / "a.mat").read_bytes()
    refused = 0
    for number in range(400):
        rng = np.random.default_rng(number)
        broken = bytearray(whole[: rng.integers(0, len(whole))] if number % 2 else whole)
        for at in rng.integers(0, max(len(broken), 1), 1 + number % 4):
            if broken:
                broken[at] = rng.integers(0, 256)
        (tmp_path / "b.mat").write_bytes(broken)
        try:
            load_mat(tmp_path / "b.mat")
        except FileError as error:
            refused += 1
            assert "the .mat file cannot be read" in str(error)
    assert refused > 200


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.apps.style.matlab.LARGEST", 1 << 16)
    packed = zlib.compress(bytes(1 << 20))
    header = b" " * 124 + b"\x00\x01IM"
    tag = (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little")
    (tmp_path / "a.mat").write_bytes(header + tag + packed)
    with pytest.raises(FileError, match="unpacks to more than 65536 bytes"):
        load_mat(tmp_path / "a.mat")


def test_missing_arrays_and_modules_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"features.0.weight": np.zeros((64, 3, 3, 3), np.float32)})
    with pytest.raises(FileError, match=r"lacks 31 of VGG19's arrays, 'features\.0\.bias' first"):
        features.vgg19(tmp_path / "a.npz")
    with pytest.raises(FileError, match=r"weights with the ending '\.bin'"):
        load_weights(tmp_path / "a.bin")
    with pytest.raises(ArgumentError, match=r"no module 'features\.99'"):
        features.Extractor(tb.zoo.create("vgg19", initialise=False, classifier=False), ["features.99"], [])
