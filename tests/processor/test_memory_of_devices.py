"""Arrays of a device beside a plain model of its memory: first fit, statistics, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DeviceError, ShapeError
from trilobite.processor import Device
from trilobite.processor.isa.address import CORE_SHIFT
from trilobite.processor.machine.validate import MOST_BYTES
from trilobite.processor.sim import memory

ALIGN, HEAP, NULL_PAGE = 256, 1 << 20, 64
ONE = "    .text\n    {}HALT\n"


class Model:
    """Bytes that are taken, by their first: the lowest room that fits is the next one's."""

    def __init__(self, end: int) -> None:
        self.end, self.taken, self.most = end, dict[int, int](), 0

    def place(self, size: int) -> int:
        at = HEAP
        for start, held in sorted(self.taken.items()):
            if start - at >= -(-max(size, 1) // ALIGN) * ALIGN:
                break
            at = start + -(-held // ALIGN) * ALIGN
        self.taken[at] = max(size, 1)
        self.most = max(self.most, sum(self.taken.values()))
        return at


def test_arrays_come_and_go_as_in_the_model() -> None:
    device = Device("dlp-s")
    model, held, rng = Model(len(device.memory.gdram)), [], np.random.default_rng(0)
    for _ in range(300):
        if held and rng.random() < 0.45:
            array, values = held.pop(int(rng.integers(len(held))))
            assert np.array_equal(array.numpy(), values)
            del model.taken[array.address]
            array.free()
            array.free()  # once more changes nothing
        else:
            size = int(rng.choice([0, 1, 255, 256, 257, 511, 512, 513, 3000]))
            values = rng.integers(0, 255, size).astype(np.uint8)
            held.append((device.array(values), values))
            assert held[-1][0].address == model.place(size)
        s = device.statistics
        sizes = sum(model.taken.values())
        assert (s.used, s.peak, s.total, s.arrays) == (sizes, model.most, model.end, len(model.taken))
    with pytest.raises(DeviceError, match="the array was freed"):
        array.numpy()


def test_all_of_the_memory_can_be_taken_and_no_more() -> None:
    device = Device("dlp-s")
    room = len(device.memory.gdram) - HEAP
    with pytest.raises(DeviceError, match=f"no room for {room + 1} bytes[\\s\\S]*at most {room} bytes"):
        device.empty(room + 1, "uint8")
    whole = device.empty(room, "uint8")
    with pytest.raises(DeviceError, match=r"no room for 1 bytes[\s\S]*at most 0 bytes"):
        device.empty(1, "uint8")
    whole.free()
    assert device.empty(room, "uint8").address == HEAP


def test_shapes_and_values() -> None:
    device = Device("dlp-s")
    assert device.empty(3).shape == (3,) and device.empty((2, 0)).shape == (2, 0)
    with pytest.raises(ShapeError, match=r"a shape of \(2, -1\)"):
        device.empty((2, -1))
    made = device.array([[1, 2], [3, 4]], "int16")
    made.write(np.array([[5.0, 6.0], [7.0, 8.0]]))
    assert made.numpy().tolist() == [[5, 6], [7, 8]] and made.numpy().dtype == np.int16
    with pytest.raises(ShapeError, match=r"values of shape \(4,\) for an array of shape \(2, 2\)"):
        made.write([5, 6, 7, 8])
    assert repr(made) == f"DeviceArray((2, 2), int16, at {made.address:#x} of dlp-s)"


def test_places_that_a_program_wants() -> None:
    device = Device("dlp-s")
    values = np.arange(16, dtype=np.uint8)
    first = device.array(values, address=NULL_PAGE)
    last = device.array(values, address=HEAP - 16)
    assert (first.address, last.address) == (NULL_PAGE, HEAP - 16)
    for address in (NULL_PAGE - 1, HEAP - 15, NULL_PAGE + 15, HEAP - 31):
        with pytest.raises(ArgumentError, match=f"an array cannot be placed at {address:#x}"):
            device.array(values, address=address)
    assert device.array(values, address=NULL_PAGE + 16).address == NULL_PAGE + 16
    first.free()
    assert device.array(values, address=NULL_PAGE).address == NULL_PAGE


@pytest.mark.parametrize(("entries", "name", "message"), [
    ((), "a", r"the module has no entry 'a'[\s\S]*a module with \.entry lines"),
    (("a", "b"), "c", r"the module has no entry 'c'[\s\S]*one of a, b"),
])  # fmt: skip
def test_entries_of_modules(entries: tuple[str, ...], name: str, message: str) -> None:
    text = "".join(f"    .entry {entry}\n" for entry in entries)
    text += ONE.format("".join(f"{entry}: " for entry in entries))
    module = Device("dlp-s").load(text)
    assert module.names == sorted(entries)
    with pytest.raises(ArgumentError, match=message):
        module[name]
    for entry in entries:
        assert module[entry].entry == entry


def test_which_entry_is_launched() -> None:
    """Without a name: the only one, or the beginning where there is none; of several one must be named."""
    from trilobite.processor.device import Kernel

    device = Device("dlp-s")
    for entries, place in (((), 0), (("b",), 1)):
        head = "".join(f"    .entry {entry}\n" for entry in entries)
        module = device.load(f"{head}    .text\n    NOP\n    {''.join(f'{e}: ' for e in entries)}HALT\n")
        kernel = Kernel(module.program, "")
        assert (kernel.entry, kernel.place) == ("".join(entries), place)
    two = device.load("    .entry a\n    .entry b\n    .text\na: HALT\nb: HALT\n")
    with pytest.raises(ArgumentError, match="the module has several entries"):
        _ = Kernel(two.program, "").entry
    assert Kernel(two.program, "b").place == 1


def test_programs_from_files(tmp_path: Path) -> None:
    device = Device("dlp-s")
    (tmp_path / "a.s").write_text("    .entry a\n    .text\na: HALT\n")
    assert device.load(tmp_path / "a.s").names == ["a"]
    for name, text in (("missing.s", None), ("other.s", b"\xff\xfe")):
        if text is not None:
            (tmp_path / name).write_bytes(text)
        with pytest.raises(DeviceError, match="the program cannot be read"):
            device.load(str(tmp_path / name))
    found: Any = device.load(device.load(tmp_path / "a.s").program)
    assert found.names == ["a"]


def test_the_largest_memory_is_what_addresses_reach() -> None:
    assert MOST_BYTES == 1 << CORE_SHIFT


def test_memories_that_the_host_has_no_room_for_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(size: int) -> Any:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(memory, "lazy_bytes", none)
    with pytest.raises(DeviceError, match="no room for the gdram of dlp-s: 17179869184 bytes"):
        Device("dlp-s")
