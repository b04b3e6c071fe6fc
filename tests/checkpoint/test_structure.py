"""How values are taken apart for a checkpoint, by the rules of containers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.base import pytree
from trilobite.framework.checkpoint import structure


@pytest.mark.parametrize(
    ("static", "kind", "keys"),
    [
        (["a", "b"], "dict", ["a", "b"]), (("a", "b"), "dict", ["a", "b"]),
        (["a"], "list", [0, 1]), (["a", "b", "c"], "list", [0, 1]), ([], "list", [0, 1]),
        (["a", 2], "list", [0, 1]), ([1, 2], "list", [0, 1]), ([np.str_("a"), "b"], "list", [0, 1]),
        ("ab", "list", [0, 1]), ({"a": 1, "b": 2}, "list", [0, 1]), (None, "list", [0, 1]),
    ],
)  # fmt: skip
def test_children_have_names_where_there_is_one_for_each(static: Any, kind: str, keys: list[Any]) -> None:
    class Own:
        pass

    pytree.register(Own, lambda own: ([1.0, 2.0], static), lambda _, children: tuple(children))
    found = structure.container(Own())
    assert found is not None and (found.kind, list(found.keys), list(found.children)) == (
        kind,
        keys,
        [1.0, 2.0],
    )
    assert found.rebuild([3, 4]) == (3, 4)
