"""Files that PyTorch itself wrote, where it is installed: what we read is what it had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint import load_pth, load_safetensors

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

WAYS: dict[str, dict[str, Any]] = {
    "zip": {},
    "stream": {"_use_new_zipfile_serialization": False},
    "zip, protocol 4": {"pickle_protocol": 4},
    "zip, protocol 5": {"pickle_protocol": 5},
    "stream, protocol 4": {"pickle_protocol": 4, "_use_new_zipfile_serialization": False},
}


def _tensors() -> dict[str, Any]:
    torch.manual_seed(0)
    base = torch.randn(6, 5)
    found = {
        "base": base,
        "turned": base.t(),
        "part": base[1:, 2:],
        "step": base[:, ::2],
        "row": base[3],
        "expanded": torch.randn(3, 1).expand(3, 4),
        "scalar": torch.tensor(-3.5),
        "empty": torch.zeros(0, 3),
        "conj": torch.randn(3, dtype=torch.complex128).conj(),
        "neg": torch.randn(3, dtype=torch.complex64).conj().imag,
        "parameter": torch.nn.Parameter(base[0]),
        "buffer": torch.nn.Buffer(torch.ones(2)),
    }
    for name in (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "uint16",
        "uint32",
        "uint64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ):
        dtype = getattr(torch, name)
        raw = torch.randint(0, 2 if name == "bool" else 256, (24 * dtype.itemsize,), dtype=torch.uint8)
        found[name] = raw.view(dtype).reshape(4, 6)[1:, ::2]
    tagged = torch.ones(2)
    tagged.tag = "mine"
    return found | {"tagged": tagged}


def _assert_same(found: Any, saved: Any, path: str = "value") -> None:
    if isinstance(saved, torch.Tensor):
        plain = saved.detach().resolve_conj().resolve_neg()
        assert (found.dtype.name, found.shape) == (
            str(saved.dtype).removeprefix("torch."),
            tuple(saved.shape),
        ), path
        assert np.ascontiguousarray(found).tobytes() == bytes(
            plain.contiguous().reshape(-1).view(torch.uint8).tolist()
        ), path
        if not (saved.is_conj() or saved.is_neg() or saved.numel() == 0):
            ours = [s for s, n in zip(found.strides, found.shape, strict=True) if n > 1]
            assert ours == [
                s * found.itemsize for s, n in zip(saved.stride(), saved.shape, strict=True) if n > 1
            ], path
    elif isinstance(saved, dict):
        assert list(found) == list(saved), path
        for key in saved:
            _assert_same(found[key], saved[key], f"{path}.{key}")
    elif isinstance(saved, list | tuple):
        assert len(found) == len(saved), path
        for index, (a, b) in enumerate(zip(found, saved, strict=True)):
            _assert_same(a, b, f"{path}.{index}")
    else:
        assert found == saved and type(found) is type(saved), path


@pytest.mark.parametrize("way", WAYS)
def test_tensors_of_every_kind(tmp_path: Path, way: str) -> None:
    saved = _tensors()
    torch.save(saved, tmp_path / "x.pth", **WAYS[way])
    found = load_pth(tmp_path / "x.pth")
    _assert_same(found, saved)
    for name in ("turned", "part", "step", "row", "parameter"):
        assert np.shares_memory(found["base"], found[name])
    assert not found["expanded"].flags.writeable


@pytest.mark.parametrize("way", WAYS)
def test_a_training_checkpoint(tmp_path: Path, way: str) -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.LazyLinear(2)
    )
    model(torch.randn(2, 3, 6, 6)).sum().backward()
    optimiser = torch.optim.AdamW(model.parameters(), amsgrad=True)
    optimiser.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 3)
    saved = {
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "schedule": schedule.state_dict(),
        "epoch": 3,
        "random": torch.get_rng_state(),
        "best": 0.25,
        "notes": {"set": {1, "a"}, "bytes": b"\x00\xff", "z": 1 + 2j},
    }
    torch.save(saved, tmp_path / "x.pth", **WAYS[way])
    _assert_same(load_pth(tmp_path / "x.pth"), saved)


def test_sizes_dtypes_and_devices(tmp_path: Path) -> None:
    torch.save(
        [torch.Size([2, 3]), torch.bfloat16, torch.device("cuda", 1), torch.device("cpu")], tmp_path / "x.pth"
    )
    size, dtype, *devices = load_pth(tmp_path / "x.pth")
    assert size == (2, 3) and dtype.name == "bfloat16" and devices == ["cuda:1", "cpu"]


@pytest.mark.parametrize("way", ["zip", "stream"])
def test_a_whole_module_is_refused_by_its_class(tmp_path: Path, way: str) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "x.pth", **WAYS[way])
    with pytest.raises(FileError, match=r"torch.nn.modules.linear.Linear|refers to a 'module'"):
        load_pth(tmp_path / "x.pth")


def test_sparse_tensors_are_refused_by_name(tmp_path: Path) -> None:
    torch.save(torch.eye(2).to_sparse(), tmp_path / "x.pth")
    with pytest.raises(FileError, match=r"torch\._utils\._rebuild_sparse_tensor"):
        load_pth(tmp_path / "x.pth")


def test_safetensors_of_torch(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    saved = {
        n: t.contiguous()
        for n, t in _tensors().items()
        if n in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "bool")
    }
    library.save_file(saved, tmp_path / "x.safetensors")
    found = load_safetensors(tmp_path / "x.safetensors")
    for name, tensor in saved.items():
        _assert_same(found[name], tensor, name)
