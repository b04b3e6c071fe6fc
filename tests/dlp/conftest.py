"""What the tests of the target share: machines, and comparisons with the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.chip_networks import ODD


@pytest.fixture(scope="session")
def odd_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chip of small scratchpads and prime sizes, as a file."""
    path = tmp_path_factory.mktemp("machines") / "odd.yaml"
    path.write_text(ODD, encoding="utf-8")
    return path
