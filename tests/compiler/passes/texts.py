"""Graphs as text before and after a pass."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from textwrap import dedent

import numpy as np

from tests.compiler.arrays import assert_same_results
from trilobite.compiler.graph.passes.dce import dce
from trilobite.ir.graph import Graph
from trilobite.ir.text import parse
from trilobite.ir.verify import verify


def graph_of(text: str) -> Graph:
    """A well-typed graph from its text, which may be indented."""
    found = parse(dedent(text).strip() + "\n")
    verify(found)
    return found


def becomes(change: Callable[[Graph], Graph], before: str, after: str, exact: bool = True) -> None:
    """The pass makes the second text of the first (dead code apart), and both mean the same."""
    old, wanted = graph_of(before), graph_of(after)
    new = change(old)
    verify(new)
    tidy = dce(new)
    assert tidy == wanted, f"found\n{tidy}\nexpected\n{wanted}"
    assert_same_results(old, new, np.random.default_rng(zlib.crc32(before.encode())), exact)


def stays(change: Callable[[Graph], Graph], text: str) -> None:
    """The pass leaves the graph as it is: the same object."""
    graph = graph_of(text)
    assert change(graph) is graph
