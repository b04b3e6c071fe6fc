"""Targets by name: with arguments, as objects, from other packages; and what is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.compiler.targets import registry
from trilobite.compiler.targets.contract import Executable, Target, Usage
from trilobite.ir.evaluate import distinct, run
from trilobite.ir.graph import Graph


class Noted(Executable):
    """The interpreter, which notes what it is asked."""

    def __init__(self, graph: Graph, notes: list[Any]) -> None:
        self.graph, self.notes = graph, notes

    def prepare(self, values: Any, owners: Any = ()) -> None:
        self.notes.append(("prepare", sorted(owners)))

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        self.notes.append(("run", len(values)))
        return distinct(run(self.graph, values), values)

    @property
    def measured(self) -> dict[str, float]:
        return {"cycles": 7.0}


class Noting(Target):
    def __init__(self, argument: str) -> None:
        self.name, self.notes = f"noting:{argument}", list[Any]()

    def lower(self, graph: Graph, usage: Usage) -> Graph:
        self.notes.append(("lower", sorted(usage.stable), usage.options))
        return graph

    def load(self, lowered: Graph) -> Noted:
        return Noted(lowered, self.notes)


@dataclass(frozen=True)
class Chip:
    """What another room might describe."""

    __trilobite_target__: ClassVar[str] = "noting"
    size: int


@pytest.fixture
def made() -> Iterator[list[Noting]]:
    found: list[Noting] = []

    def factory(argument: object) -> Target:
        found.append(Noting(argument if isinstance(argument, str) else f"chip{argument.size}"))  # type: ignore[attr-defined]
        return found[-1]

    registry.register("noting", factory)
    yield found
    registry.register("noting", factory)
    del registry._families["noting"]


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_name_has_arguments(made: list[Noting]) -> None:
    w, x = tb.tensor(normal(3, 4)), tb.tensor(normal(2, 3, seed=1))
    f = tb.jit(lambda x: x @ w, target="noting:file.yaml", options={"depth": 2})
    assert not made  # nothing is made before a call
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), tb.jit(lambda x: x @ w, target="reference")(x).numpy())
    (target,) = made
    assert target.name == "noting:file.yaml"
    kinds = [note[0] for note in target.notes]
    assert kinds[0] == "lower" and kinds.count("lower") == 1 and kinds.count("run") == 3
    assert target.notes[0] == ("lower", [1], (("depth", 2),))  # the weight is stable
    assert ("prepare", [1]) in target.notes  # and its cell is known
    assert f.lower(x).compile().measured == {"cycles": 7.0}


def test_an_object_belongs_to_a_family(made: list[Noting]) -> None:
    x = tb.tensor(normal(5))
    f = tb.jit(lambda x: x + 1.0, target=Chip(3))
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() + np.float32(1))
    assert made[0].name == "noting:chip3"
    assert f.explain(x).startswith("<lambda> on noting:chip3: ")


def test_gradients_and_other_recordings_find_it_by_its_name(made: list[Noting]) -> None:
    x = tb.tensor(normal(5), requires_grad=True)
    inner = tb.jit(lambda x: tb.exp(x) * 2.0, target=Chip(9))
    inner(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(x.detach().numpy()), rtol=1e-6)
    outer = tb.jit(lambda x: inner(x) + 1.0, target="reference")
    np.testing.assert_allclose(outer(x.detach()).numpy(), 2 * np.exp(x.detach().numpy()) + 1, rtol=1e-6)


def test_a_target_may_be_passed_itself(made: list[Noting]) -> None:
    target = Noting("own")
    assert tb.jit(lambda x: -x, target=target)(tb.ones(2)).tolist() == [-1.0, -1.0]
    assert ("run", 1) in target.notes


def test_what_is_no_target_is_refused() -> None:
    for wrong in ("gpu", "gpu:0", 7, Chip):
        with pytest.raises(DeviceError, match="there is no target") as caught:
            tb.jit(lambda x: x, target=wrong)(tb.ones(2))
        assert "one of cpu, " in str(caught.value) and "reference" in str(caught.value)


def test_who_says_nothing_of_memory_says_so(made: list[Noting]) -> None:
    lowered = tb.jit(lambda x: x, target="noting").lower(tb.ones(2))
    with pytest.raises(ArgumentError, match="memory of a function for the target 'noting:'"):
        lowered.compile().memory()
    with pytest.raises(ArgumentError, match="a profile of a function for the target 'noting:'"):
        lowered.compile().profile(lambda: None, 1)


def test_another_package_registers_by_an_entry_point(tmp_path: Path) -> None:
    """A distribution on the path, as an installer leaves it: the target is found, and imported only then."""
    (tmp_path / "outside_target.py").write_text(
        "from trilobite.compiler.targets.reference import Reference\n"
        "class Outside(Reference):\n"
        "    def __init__(self, argument):\n"
        "        self.name = f'outside:{argument}'\n"
    )
    info = tmp_path / "outside_target-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-target\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trilobite.targets]\noutside = outside_target:Outside\n")
    program = (
        "import sys, trilobite as tb\n"
        "f = tb.jit(lambda x: x * 2.0, target='outside:7')\n"
        "assert 'outside_target' not in sys.modules\n"
        "assert f(tb.ones(2)).tolist() == [2.0, 2.0]\n"
        "print(f.explain(tb.ones(2)).splitlines()[0])\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{root}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "<lambda> on outside:7: 3 equations", done.stderr


def test_a_name_imports_nothing_of_other_targets() -> None:
    program = (
        "import sys, trilobite as tb\n"
        "f = tb.jit(lambda x: x * 2.0, target='dlp:dlp-m')\n"
        "g = tb.jit(lambda x: x * 2.0, target='reference')\n"
        "assert g(tb.ones(2)).tolist() == [2.0, 2.0]\n"
        "parts = 'trilobite.processor', '.cpu', '.dlp'\n"
        "print([m for m in sys.modules for p in parts if m.startswith('trilobite') and p in m])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_kind_of_kernel_is_loaded_when_there_is_one(tmp_path: Path) -> None:
    """Cold: nothing is on disk, so the whole way is gone; but no convolution, no sort, no LU is met on it."""
    program = (
        "import sys, trilobite as tb\n"
        "w, b = tb.ones((3, 4)), tb.ones(4)\n"
        "tb.jit(lambda x: tb.nn.functional.relu(x @ w + b))(tb.ones((2, 3)))\n"
        "family = ['contraction.' + r for r in ('attention', 'gemm', 'pooling')]\n"
        "rooms = 'linalg', 'sorting', *family, 'nests'\n"
        "print([r for r in rooms if f'trilobite.compiler.targets.cpu.{r}.lower' in sys.modules])\n"
        "algorithms = 'direct', 'integer', 'winograd', 'planes', 'channelwise', 'rowwise', 'weight_grad'\n"
        "inside = [m.split('.contraction.')[1] for m in sys.modules if '.contraction.' in m]\n"
        "print([m for m in inside if m.split('.')[0] in (*algorithms, 'convolution')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TRILOBITE_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    rooms, convolutions = done.stdout.splitlines()
    # Attention says which calls are its own.
    assert rooms == "['contraction.attention', 'contraction.gemm']", done.stderr
    assert convolutions == "['planes', 'planes.tile']"  # the size of a tile, which layouts are decided by


def test_targets_of_other_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{__name__}:Noting"
    monkeypatch.setattr(registry, "_places", lambda: {"elsewhere": place, "absent": "no.such.room:Target"})
    assert {"cpu", "reference", "dlp", "elsewhere"} <= set(registry.families())


def test_a_graph_that_others_call_runs_on_a_target_that_is_new(made: list[Noting]) -> None:
    graph = tb.make_graph(lambda x: x * 2.0)(tb.zeros(3))
    found = registry._elsewhere(graph, "noting:unheard")
    assert found([np.float32([1, 2, 3])])[0].tolist() == [2.0, 4.0, 6.0]
