"""`trilobite style-train`: killed in the middle and called again, it ends as if it had not been."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trilobite.apps.style import pictures
from trilobite.apps.style.train_command import LOSSES, NETWORK, losses
from trilobite.framework.checkpoint.safetensors import load_safetensors

RNG = np.random.default_rng(4)
TRAIN = """
import os, signal, sys
import trilobite as tb
from trilobite.apps.style import features, train_command
from trilobite.zoo.vgg import POOL, VGG

def small(weights=None):
    tb.manual_seed(1)
    network = VGG((8, POOL, 12, 12), classifier=False)
    return features.Extractor(network, ("features.0", "features.3"), ("features.5",))

note = train_command.note

def noted(path, report):
    note(path, report)
    if report.step == int(sys.argv[4]):  # by itself: no machine is too quick or too busy for the moment
        os.kill(os.getpid(), signal.SIGKILL)

train_command.note = noted
features.efficientnet = small  # the command itself, with a feature network that needs no download
train_command.style_train(
    sys.argv[1], sys.argv[2], train_command.Path(sys.argv[3]), 40, 2, 16, 4, 1, 5, "", 0
)
"""


def started(folder: Path, style: Path, output: Path, end: int = 0) -> subprocess.Popen[str]:
    """A training of 40 steps, killed behind step `end`."""
    command = [sys.executable, "-c", TRAIN, str(folder), str(style), str(output), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abc":
        small = RNG.random((6, 5, 3)).astype(np.float32)
        pictures.write(tmp_path / "in" / f"{name}.png", pictures.resized(small, 40, 50))
    pictures.write(tmp_path / "style.png", pictures.pattern(32))
    return tmp_path / "in"


def test_killed_and_resumed_it_is_the_same_network(folder: Path, tmp_path: Path) -> None:
    style = tmp_path / "style.png"
    whole = started(folder, style, tmp_path / "whole")
    killed = started(folder, style, tmp_path / "killed", end=13)  # between two checkpoints
    noted = tmp_path / "killed" / LOSSES
    output = killed.communicate(timeout=110)[0]
    assert killed.returncode == -signal.SIGKILL, output
    assert not (tmp_path / "killed" / NETWORK).exists()
    assert losses(noted)[-1]["step"] == 13
    again = started(folder, style, tmp_path / "killed")
    said = [process.communicate(timeout=120)[0] for process in (whole, again)]
    assert whole.returncode == again.returncode == 0, said
    one, other = (load_safetensors(tmp_path / name / NETWORK) for name in ("whole", "killed"))
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert losses(tmp_path / "whole" / LOSSES) == losses(noted)
    rows = losses(tmp_path / "whole" / LOSSES)
    assert [row["step"] for row in rows] == list(range(1, 41))
    early, late = (np.mean([row["style"] for row in part]) for part in (rows[:5], rows[-5:]))
    assert late < early
    assert f"trilobite style PICTURE --network {tmp_path / 'whole' / NETWORK}" in said[0]
