"""Wrong uses across the framework: the type of the error, and its text: what, where, expected, remedy."""

from __future__ import annotations

import inspect
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import FileError, TraceError, TrilobiteError

from . import cases_recording, cases_tensors, cases_training, cases_transforms
from .wrong_use import USES, WrongUse, X, leaf

TABLES = (cases_tensors, cases_recording, cases_transforms, cases_training)


def test_there_are_enough_of_them() -> None:
    assert len(USES) >= 150
    assert {u.file for u in USES} == {m.__file__ for m in TABLES}


@pytest.mark.parametrize("use", USES, ids=[u.fn.__name__ for u in USES])
def test_the_message_says_all_four(use: WrongUse) -> None:
    with pytest.raises(TrilobiteError) as caught:
        use.fn()
    error = caught.value
    assert isinstance(error, use.error)
    assert error.what.startswith(use.what)
    assert str(error.expected).startswith(use.expected)
    assert str(error.remedy).startswith(use.remedy)
    lines, first = inspect.getsourcelines(use.fn)
    named = [f"{use.file}:{n} in " for n in range(first, first + len(lines))]
    assert any(str(error.where).startswith(name) for name in named), f"{error.where} is not the user's line"
    for label, part in (("where", error.where), ("expected", error.expected), ("remedy", error.remedy)):
        assert f"\n  {label}: {part}" in str(error)


# -- names that are not there --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, meant",
    [
        ("matmull", "matmul"),
        ("flot32", "float32"),
        ("ndarray", "Tensor"),
        ("absolut", "absolute"),
        ("value_grad", "value_and_grad"),
        ("pmap", "vmap"),
        ("sparse_coo_tensor", "tensor"),
        ("astensor", "as_tensor"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"trilobite has no '{name}'; did you mean tb.{meant}"):
        getattr(tb, name)


# -- nothing is left behind ----------------------------------------------------------------------------------


def _context() -> tuple[Any, ...]:
    from trilobite.ir.transforms import bind as entry

    ctx = entry.context()
    return ctx.recorder, ctx.depth, ctx.grad_off, ctx.writes, ctx.vmaps, ctx.ambient, ctx.undo


def test_wrong_uses_leave_no_state_behind() -> None:
    before = _context()
    for use in USES:
        with pytest.raises(TrilobiteError):
            use.fn()
        assert _context() == before, use.fn.__name__
    a = leaf()
    (a * a).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [2.0, 4.0, 6.0]
    assert tb.jit(lambda v: v * 2)(X).tolist() == [2.0, 4.0, 6.0]


def test_a_module_s_attributes_may_not_change_while_recording() -> None:
    class Counting(tb.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, v: Any) -> Any:
            self.calls = self.calls + 1
            return v

    model = Counting()
    with pytest.raises(TraceError) as caught:
        tb.jit(model)(X)
    for part in ("calls", "Counting", f"{__file__}:", "expected: ", "remedy: "):
        assert part in str(caught.value)
    assert model.calls == 0


# -- files ---------------------------------------------------------------------------------------------------


def _header(entries: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


ROW = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
FILES: list[tuple[str, bytes, str, str]] = [
    ("garbage.safetensors", b"\xff" * 20, "the header claims 18446744073709551615 bytes", "2 to 12"),
    ("empty.safetensors", b"", "the file has 0 bytes", "at least 10"),
    (
        "short.safetensors",
        _header({"a": ROW}, b"\0" * 4),
        "the file is truncated",
        "8 bytes of data, found 4",
    ),
    ("damaged.npz", b"no archive", "the archive is damaged", "an intact zip archive"),
    ("damaged.pth", b"no archive", "this is not a file that torch.save wrote", "a zip archive"),
]


@pytest.mark.parametrize("name, content, what, expected", FILES, ids=[row[0] for row in FILES])
def test_a_bad_file_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, what: str, expected: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    loaders = {".safetensors": tb.load_safetensors, ".npz": tb.load_npz, ".pth": tb.load_pth}
    with pytest.raises(FileError) as caught:
        loaders[path.suffix](path)
    assert caught.value.what.startswith(what) and str(caught.value.expected).startswith(expected)
    assert str(path) in str(caught.value.where)
    assert "the file is corrupt or malicious; fetch or save it again" in str(caught.value.remedy)


def test_a_pth_file_that_asks_for_a_function_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "evil.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "archive/data.pkl", b'cos\nsystem\n(S"touch ' + str(tmp_path / "ran").encode() + b'"\ntR.'
        )
        archive.writestr("archive/version", "3")
    with pytest.raises(FileError, match=r"asks for os\.system, which is not needed to hold weights"):
        tb.load_pth(path)
    assert not (tmp_path / "ran").exists()


def test_an_npz_file_with_objects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "objects.npz"
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(FileError, match=r"dtype '\|O'(.|\n)*array 'a'(.|\n)*never objects(.|\n)*convert it"):
        tb.load_npz(path)


@pytest.mark.parametrize("load", [tb.load, tb.load_safetensors, tb.load_npz, tb.load_pth])
def test_a_missing_file_is_named(tmp_path: Path, load: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(tmp_path / "nothing")
    for part in ("could not be opened", str(tmp_path / "nothing"), "expected: ", "remedy: "):
        assert part in str(caught.value)
