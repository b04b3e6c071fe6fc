"""The program that the kill tests kill: each state follows from the one before, and each step is saved.

`python kill_saver.py DIRECTORY LAST` resumes from the newest checkpoint and goes on to step LAST.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import directory


def first_state() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "w": rng.normal(size=(150, 100)),
        "m": np.zeros((150, 100), np.float32),
        "random": rng.bit_generator.state,
        "step": 0,
    }


def next_state(state: dict[str, Any]) -> dict[str, Any]:
    """One step of a pretended training: all of the state goes into the next one, down to the last bit."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state["random"]
    gradient = np.sin(state["w"]) + rng.normal(size=state["w"].shape)
    momentum = (0.9 * state["m"] + gradient).astype(np.float32)
    return {
        "w": state["w"] - 0.01 * momentum,
        "m": momentum,
        "random": rng.bit_generator.state,
        "step": state["step"] + 1,
    }


def main(place: str, last: int) -> None:
    run = checkpoint.Checkpointer(place, keep=2)
    state = first_state() if run.latest() is None else run.load(like=first_state())
    print("ready", flush=True)
    while state["step"] < last:
        state = next_state(state)
        run.save(state["step"], state)
        print("done", state["step"], flush=True)


if __name__ == "__main__":
    directory.SHARD_BYTES = 100_000  # several files per checkpoint, so that a kill falls between them too
    main(sys.argv[1], int(sys.argv[2]))
