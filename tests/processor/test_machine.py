"""Machines: presets hold their published figures, wrong descriptions are refused with a useful text."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
import yaml

from trilobite.base.errors import MachineError
from trilobite.processor.machine import load_machine, machine_from, parse_machine, preset_names
from trilobite.processor.machine.description import Noc
from trilobite.processor.machine.load import _presets
from trilobite.processor.machine.noc import links_of, routes
from trilobite.processor.tools.commands import machines, machines_show

EXPECTED = {
    "diannao",
    "eyeriss",
    "gemmini",
    "dlp-m",
    "dlp-s",
    "mlu270",
    "mlu290",
    "mlu370-x4",
    "mlu370-x8",
    "mlu590",
    "nvdla-2048",
    "nvdla-512",
    "nvdla-128",
    "nvdla-32",
    "tpu-v1",
}


def tree(name: str = "dlp-m") -> dict:
    return yaml.safe_load((_presets() / f"{name}.yaml").read_text())


def refused(**changes: object) -> str:
    description = copy.deepcopy(tree())
    for path, value in changes.items():
        *way, last = path.split("__")
        place = description
        for step in way:
            place = place[step]
        place[last] = value
    with pytest.raises(MachineError) as caught:
        machine_from(description, "mine.yaml")
    return str(caught.value)


def test_all_presets_are_there_and_valid() -> None:
    assert set(preset_names()) == EXPECTED
    for name in preset_names():
        assert load_machine(name).name == name


@pytest.mark.parametrize(
    ("name", "rate_format", "tera"),
    [
        ("mlu270", "int8", 128),
        ("mlu290", "int8", 512),
        ("mlu370-x4", "int8", 256),
        ("mlu370-x4", "fp16", 96),
        ("mlu370-x4", "fp32", 24),
        ("mlu370-x8", "int8", 256),
        ("mlu370-x8", "fp16", 96),
        ("mlu370-x8", "fp32", 32),
        ("tpu-v1", "int8", 91.7504),
        ("nvdla-2048", "int8", 4.096),
        ("dlp-m", "fp32", 16.384),
    ],
)
def test_peaks_are_the_published_ones(name: str, rate_format: str, tera: float) -> None:
    assert load_machine(name).peak_ops(rate_format) / 1e12 == pytest.approx(tera, rel=1e-12)


def test_every_figure_of_a_preset_has_its_provenance() -> None:
    for name in preset_names():
        text = (_presets() / f"{name}.yaml").read_text()
        assert "Provenance" in text, name


def test_ridge_is_peak_over_sustained_bandwidth() -> None:
    machine = load_machine("dlp-s")
    assert machine.ridge("fp32") == pytest.approx(1024e9 / (25.6e9 * 0.85))
    assert machine.ridge("fp32") * 4 == pytest.approx(machine.ridge("fp16"))


def test_machine_survives_pickle_and_replace() -> None:
    machine = load_machine("dlp-m")
    assert pickle.loads(pickle.dumps(machine)) == machine
    faster = replace(machine, dram=replace(machine.dram, gb_per_s=614.4))
    assert faster.dram_bytes_per_cycle == 2 * machine.dram_bytes_per_cycle
    assert hash(faster.core) == hash(machine.core)


def test_a_users_file_is_loaded_by_path(tmp_path) -> None:
    description = tree("dlp-s") | {"name": "mine", "clock_ghz": 2}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(description))
    assert load_machine(path).clock_ghz == 2.0
    assert "mine: 1 cluster(s)" in machines_show(str(path))


def test_errors_name_the_field_and_the_remedy() -> None:
    assert refused(core__nram__banks=7) == (
        "512 KiB cannot be split into 7 equal banks\n  where: dlp-m: core.nram\n"
        "  expected: a bank count that divides the size\n  remedy: use 8 banks, or another size"
    )
    assert refused(core__mfu__macs_per_cycle=4096).startswith(
        "4096 is a rate without a format\n  where: mine.yaml: core.mfu"
    )
    assert "belongs to no number format: 'int7'" in refused(core__mfu__macs_per_cycle={"int7": 8})
    assert "no rate for any number format" in refused(core__mfu__macs_per_cycle={})
    assert "the rate of int8 is 0" in refused(core__mfu__macs_per_cycle={"int8": 0})
    assert "no way leads from cluster 0 to cluster 3" in refused(
        noc={"kind": "links", "links": [[0, 1], [1, 2]], "link_bytes_per_cycle": 8}
    )
    assert "no way leads from cluster 0 to cluster 1, 2, 3" in refused(noc={"kind": "none"})
    assert "a mesh of shape [2, 3] has 6 places for 4 clusters" in refused(noc__shape=[2, 3])
    assert "leads to no cluster" in refused(
        noc={"kind": "links", "links": [[0, 9]], "link_bytes_per_cycle": 8}
    )
    assert "'claster' is no field" in refused(claster=1)
    assert "did you mean 'clusters'?" in refused(claster=1)
    assert "core.nram.kib is '512'" in refused(core__nram__kib="512")
    assert "a memory core needs an SRAM" in refused(sram={"kib": 0})
    assert "do not spread evenly over 3 chips" in refused(chips=3)
    assert "noc.links holds [0, 1, 2]" in refused(noc={"kind": "links", "links": [[0, 1, 2]]})
    assert "a DRAM efficiency of 1.5 is impossible" in refused(dram__efficiency=1.5)
    assert "one of systolic-ws, systolic-os, adder-tree" in refused(core__mfu__geometry="cube")
    assert "640 KiB are reserved in a memory of 512 KiB" in refused(core__nram__reserved_kib=640)
    assert "clock_ghz is -1" in refused(clock_ghz=-1)
    assert "clock_ghz is True" in refused(clock_ghz=True)
    assert "registers cannot be encoded" in refused(core__gprs=32)


def test_missing_field_broken_yaml_and_unknown_name() -> None:
    description = tree()
    del description["core"]["vfu"]
    with pytest.raises(MachineError, match=r"core\.vfu is missing"):
        machine_from(description)
    with pytest.raises(MachineError, match="this is not YAML"):
        parse_machine("core: [")
    with pytest.raises(MachineError, match="the file is None"):
        parse_machine("")
    with pytest.raises(MachineError, match="did you mean 'mlu370-x4'"):
        load_machine("mlu370x4")
    with pytest.raises(MachineError, match="cannot be read"):
        load_machine("nowhere/at/all.yaml")


def test_routes_are_shortest_and_fixed() -> None:
    mesh = Noc("mesh", (2, 3), 64, 4)
    assert len(links_of(mesh, 6)) == 14
    assert routes(mesh, 6)[0, 5] == ((0, 1), (1, 2), (2, 5))
    ring = Noc("ring", (), 64, 4)
    assert routes(ring, 5)[0, 4] == ((0, 4),)
    torus = Noc("torus", (1, 4), 64, 4)
    assert len(routes(torus, 4)[0, 3]) == 1
    assert len(routes(Noc("mesh", (1, 4), 64, 4), 4)[0, 3]) == 3


def test_table_and_drawing() -> None:
    lines = machines().splitlines()
    assert len(lines) == 2 + len(EXPECTED)
    assert [word for word in lines[0].split()][:2] == ["machine", "cores"]
    assert next(line for line in lines if line.startswith("mlu370-x4")).split() == [
        "mlu370-x4",
        "8x4+1",
        "1",
        "7",
        "768/1024",
        "4096",
        "256",
        "96",
        "24",
        "307.2",
        "none",
    ]
    text = machines_show("dlp-m")
    assert "[c0] -- [c1]" in text
    assert "systolic-ws 64 x 64, 2 weight buffer(s)" in text
    assert "fp32               512        16.38        62.75" in text
    assert "on the vector unit" in machines_show("tpu-v1")
