"""These tests mean the standard by what they write: `tb.std(x)` without the warning for users of PyTorch."""

from __future__ import annotations

import pytest

QUIET = r"ignore:tb\.(std|var|meshgrid)\(x"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "array_api" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings(QUIET))
