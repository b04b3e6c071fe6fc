"""Weights of PyTorch's files by name: checkpoints that hold them deep inside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.checkpoint.torch_files import pickled, whole, zip_file
from trilobite.inference import formats


@pytest.mark.parametrize("ending", [".pth", ".pt", ".ckpt", ".bin"])
def test_arrays_of_a_checkpoint_have_the_names_of_the_way_to_them(tmp_path: Path, ending: str) -> None:
    w, m = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([4.0], np.float32)
    tree = {
        "epoch": 3,
        "state_dict": {"fc.weight": whole("0", w)},
        "optimizer_states": [{"state": {0: {"exp_avg": whole("1", m)}}, "lr": 0.1}],
    }
    path = tmp_path / f"last{ending}"
    path.write_bytes(zip_file(pickled(tree), {"0": w.tobytes(), "1": m.tobytes()}))
    found = formats.weights(path)
    assert list(found) == ["state_dict.fc.weight", "optimizer_states.0.state.0.exp_avg"]
    np.testing.assert_array_equal(found["state_dict.fc.weight"], w)
    np.testing.assert_array_equal(found["optimizer_states.0.state.0.exp_avg"], m)
