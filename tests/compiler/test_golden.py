"""What the CPU target makes of the zoo on a described machine: byte for byte what is kept under tests/golden.

A difference is no mistake in itself: `python -m tools.golden` lists and keeps it, and the commit says why.
"""

import json
from pathlib import Path

import pytest

from tools.golden import TABLE, WHOLE, compare, differences, subjects

REST = [n for n in subjects() if n not in WHOLE]


def same(name: str, folder: Path) -> None:
    _, lines = compare(name, folder)
    assert not lines, "\n".join([*lines, "", f"if it is meant: python -m tools.golden {name}"])


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_small_networks_become_what_is_kept(name: str, tmp_path: Path) -> None:
    same(name, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["residual_block", *REST])
def test_the_zoo_becomes_what_is_kept(name: str, tmp_path: Path) -> None:
    same(name, tmp_path)


def test_every_network_is_kept() -> None:
    kept = json.loads(TABLE.read_text(encoding="utf-8"))
    assert {use.split()[0] for use in kept} == set(subjects())
    assert {use.split()[1] for use in kept} == {"forward", "training"}


def test_a_difference_is_told() -> None:
    kept = json.loads(TABLE.read_text(encoding="utf-8"))
    other = json.loads(TABLE.read_text(encoding="utf-8"))
    use = other["lenet training"]
    use["stages"]["fuse"] = "0"
    use["kernels"][0] = "another k0"
    lines = differences(kept, other)
    assert lines[0] == "lenet training: stage fuse"
    assert lines[1].startswith("lenet training: without the kernel ") and lines[2].endswith(" another k0")
    assert not differences(kept, kept)
