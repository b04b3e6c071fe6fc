"""PyTorch's files, read without PyTorch: strides, offsets, sharing, every dtype, both containers."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import any_bits, assert_same
from hypothesis import given
from hypothesis import strategies as st
from torch_files import (
    ORDERED,
    STORAGES,
    SYSTEM,
    Call,
    Global,
    Persistent,
    Raw,
    code_of,
    pickled,
    storage,
    stream_file,
    tensor,
    whole,
    zip_file,
)

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint import load_pth
from trilobite.framework.checkpoint.arrays import DTYPES

FORMATS = ["zip", "stream"]


def _load(
    tmp_path: Path, value: Any, arrays: dict[str, np.ndarray], container: str = "zip", protocol: int = 2
) -> Any:
    path = tmp_path / "x.pth"
    if container == "zip":
        path.write_bytes(zip_file(pickled(value, protocol), {k: a.tobytes() for k, a in arrays.items()}))
    else:
        path.write_bytes(
            stream_file(pickled(value, protocol), {k: (a.size, a.tobytes()) for k, a in arrays.items()})
        )
    return load_pth(path)


@pytest.mark.parametrize("container", FORMATS)
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", STORAGES)
def test_every_storage_type(tmp_path: Path, name: str, protocol: int, container: str) -> None:
    array = any_bits(DTYPES[name], (3, 5), 4)
    found = _load(tmp_path, {"w": whole("0", array)}, {"0": array}, container, protocol)
    assert_same(found, {"w": array})
    assert found["w"].flags.writeable


@pytest.mark.parametrize("container", FORMATS)
@pytest.mark.parametrize(
    "name",
    [
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "uint16",
        "uint32",
        "uint64",
    ],
)
def test_dtypes_that_live_in_untyped_storages(tmp_path: Path, name: str, container: str) -> None:
    array = any_bits(DTYPES[name], (2, 3), 5)
    raw = array.reshape(-1).view(np.uint8)
    where = Persistent(("storage", Global("torch.storage", "UntypedStorage"), "0", "cpu", raw.size))
    rebuilt = Call(
        Global("torch._utils", "_rebuild_tensor_v3"),
        (where, 1, (2, 2), (3, 1), False, Call(ORDERED, ()), Global("torch", name)),
    )
    assert_same(
        _load(tmp_path, rebuilt, {"0": raw}, container), array.reshape(-1)[1:].copy()[[[0, 1], [3, 4]]]
    )


@given(data=st.data())
def test_strides_and_offsets_are_honoured(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4), "shape"))
    strides = tuple(
        data.draw(st.lists(st.integers(0, 7), min_size=len(shape), max_size=len(shape)), "strides")
    )
    offset = data.draw(st.integers(0, 5), "offset")
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
    size = last + 1 + data.draw(st.integers(0, 3), "slack")
    flat = any_bits(DTYPES["float32"], (size,), 1)
    path = tmp_path_factory.mktemp("pth")
    found = _load(path, tensor(storage("0", "float32", size), offset, shape, strides), {"0": flat})
    assert found.shape == shape and found.dtype == np.float32
    for index in np.ndindex(shape):
        position = offset + sum(i * s for i, s in zip(index, strides, strict=True))
        assert found[index].tobytes() == flat[position].tobytes()


@pytest.mark.parametrize("container", FORMATS)
def test_tensors_of_one_storage_share_memory(tmp_path: Path, container: str) -> None:
    flat = np.arange(12, dtype=np.float32)
    where = storage("k", "float32", 12)
    value = {
        "all": tensor(where, 0, (3, 4), (4, 1)),
        "turned": tensor(where, 0, (4, 3), (1, 4)),
        "row": tensor(where, 4, (4,), (1,)),
    }
    found = _load(tmp_path, value, {"k": flat}, container)
    found["row"][0] = -1
    assert found["all"][1, 0] == -1 and found["turned"][0, 1] == -1


def test_expanded_tensors_are_read_only(tmp_path: Path) -> None:
    flat = np.array([5.0, 6.0])
    found = _load(tmp_path, tensor(storage("0", "float64", 2), 0, (2, 3), (1, 0)), {"0": flat})
    assert found.tolist() == [[5, 5, 5], [6, 6, 6]] and not found.flags.writeable


def test_parameters_pending_conjugates_and_tensors_with_attributes(tmp_path: Path) -> None:
    z = any_bits(DTYPES["complex64"], (3,), 8)
    f = np.array([1.5, -0.0, np.inf], np.float32)
    inner = tensor(storage("1", "float32", 3), 0, (3,), (1,)).arguments
    value = {
        "parameter": Call(
            Global("torch._utils", "_rebuild_parameter"), (whole("1", f), True, Call(ORDERED, ()))
        ),
        "with state": Call(
            Global("torch._utils", "_rebuild_parameter_with_state"),
            (whole("1", f), True, Call(ORDERED, ()), {"a": 1}),
        ),
        "attributes": Call(
            Global("torch._tensor", "_rebuild_from_type_v2"),
            (Global("torch._utils", "_rebuild_tensor_v2"), Global("torch", "Tensor"), inner, {"tag": 3}),
        ),
        "old": Call(Global("torch._utils", "_rebuild_tensor"), (storage("1", "float32", 3), 0, (3,), (1,))),
        "conj": tensor(storage("0", "complex64", 3), 0, (3,), (1,), {"conj": True}),
        "neg": tensor(storage("1", "float32", 3), 0, (3,), (1,), {"neg": True, "conj": False}),
    }
    found = _load(tmp_path, value, {"0": z, "1": f})
    for name in ("parameter", "with state", "attributes", "old"):
        assert_same(found[name], f)
    assert_same(found["conj"], np.conj(z))
    assert_same(found["neg"], -f)


@pytest.mark.parametrize("container", FORMATS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_everything_else_that_weights_come_with(tmp_path: Path, container: str, protocol: int) -> None:
    w = np.arange(3, dtype=np.int64)
    state = Raw(
        code_of(ORDERED, protocol)
        + b")R("
        + code_of("w", protocol)
        + code_of(whole("0", w), protocol)
        + b"u"
        + code_of({"_metadata": Call(ORDERED, ())}, protocol)
        + b"b"
    )
    value = {
        "state": state,
        "pairs": Call(ORDERED, ([("a", 1), ("b", [2.5])],)),
        "size": Call(Global("torch", "Size"), ((3, 4),)),
        "device": [Call(Global("torch", "device"), ("cpu",)), Call(Global("torch", "device"), ("cuda", 1))],
        "dtype": Global("torch", "bfloat16"),
        "set": Call(Global("__builtin__", "set"), ([1, "a"],)),
        "frozen": Call(Global("builtins", "frozenset"), ([(1, 2)],)),
        "bytes": Call(Global("_codecs", "encode"), ("a\xff", "latin1")),
        "array of bytes": Call(Global("builtins", "bytearray"), (b"ab",)),
        "complex": Call(Global("__builtin__", "complex"), (1.0, -2.0)),
        "numbers": [0, 255, 256, -1, -(2**70), 1e-300, True, None, float("inf")],
        7: "int key",
        (1, "x"): "tuple key",
    }
    found = _load(tmp_path, value, {"0": w}, container, protocol)
    assert type(found["state"]) is OrderedDict and found["state"]["w"].tolist() == [0, 1, 2]
    assert found["pairs"] == OrderedDict(a=1, b=[2.5]) and found["size"] == (3, 4)
    assert found["device"] == ["cpu", "cuda:1"] and found["dtype"] == DTYPES["bfloat16"]
    assert found["set"] == {1, "a"} and found["frozen"] == frozenset({(1, 2)})
    assert (
        found["bytes"] == b"a\xff"
        and found["array of bytes"] == bytearray(b"ab")
        and found["complex"] == 1 - 2j
    )
    assert found["numbers"] == [0, 255, 256, -1, -(2**70), 1e-300, True, None, float("inf")]
    assert found[7] == "int key" and found[1, "x"] == "tuple key"


def test_older_opcodes(tmp_path: Path) -> None:
    """Protocols 0 and 1 as far as weights need them, memo by text, and Python 2's strings."""
    code = (
        b"(lp0\nI3\naI01\naI00\naL12345678901234567890L\naF-2.5\na(I1\nI2\ntp1\nag1\na"
        b"U\x03abca(dU\x01kI7\nsaJ\xff\xff\xff\xffaM\x00\x01a]a."
    )
    path = tmp_path / "x.pth"
    path.write_bytes(zip_file(code, {}))
    assert load_pth(path) == [
        3,
        True,
        False,
        12345678901234567890,
        -2.5,
        (1, 2),
        (1, 2),
        "abc",
        {"k": 7},
        -1,
        256,
        [],
    ]


def test_values_recalled_from_the_memo_stay_shared(tmp_path: Path) -> None:
    found = _load(tmp_path, Raw(b"](]q\x00h\x00e"), {})
    assert found[0] is found[1]


def test_views_of_storages_in_old_files(tmp_path: Path) -> None:
    flat = np.arange(10, dtype=np.float32)
    value = tensor(storage("0", "float32", 10, ("v", 4, 5)), 1, (3,), (1,))
    assert _load(tmp_path, value, {"0": flat}, "stream").tolist() == [5, 6, 7]
    none = tensor(storage("0", "float32", 10, None), 1, (3,), (1,))
    assert _load(tmp_path, none, {"0": flat}, "stream").tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["float64", "bfloat16", "complex64", "int8"])
def test_big_endian_files_are_turned(tmp_path: Path, name: str) -> None:
    array = any_bits(DTYPES[name], (4,), 3)
    width = array.itemsize // 2 if name == "complex64" else array.itemsize
    foreign = array.view(f"u{width}").byteswap().tobytes()
    path = tmp_path / "x.pth"
    path.write_bytes(
        zip_file(pickled(whole("0", array)), {"0": foreign}, extra={"archive/byteorder": b"big"})
    )
    assert_same(load_pth(path), array)
    path.write_bytes(
        stream_file(
            pickled(whole("0", array)), {"0": (4, foreign)}, system={**SYSTEM, "little_endian": False}
        )
    )
    assert_same(load_pth(path), array)


# ---- containers that lie ----


def _entry(name: str, data: bytes = b"x", **fields: Any) -> bytes:
    """An honest archive with one more entry, whose fields may be forged."""
    out = io.BytesIO(zip_file(pickled({}), {}))
    with zipfile.ZipFile(out, "a") as archive:
        info = zipfile.ZipInfo(name)
        info.compress_type = fields.pop("compress", zipfile.ZIP_STORED)
        archive.writestr(info, data)
        for key, value in fields.items():
            setattr(archive.filelist[-1], key, value)
    return out.getvalue()


W = np.arange(4, dtype=np.float32)
PICKLE = pickled(whole("0", W))
LIARS = {
    "no pickle": (zip_file(PICKLE, {}).replace(b"data.pkl", b"dat0.pkl"), "the archive has no data.pkl"),
    "storage missing": (zip_file(PICKLE, {}), "the storage '0' is missing"),
    "storage short": (zip_file(PICKLE, {"0": W.tobytes()[:-1]}), "the storage '0' has 15 bytes"),
    "storage long": (zip_file(PICKLE, {"0": W.tobytes() + b"x"}), "the storage '0' has 17 bytes"),
    "bomb": (
        _entry("archive/data/9", bytes(10**7), compress=zipfile.ZIP_DEFLATED),
        "unpacks to more than it holds",
    ),
    "compressed": (
        _entry("archive/data/9", b"ab" * 4, compress=zipfile.ZIP_DEFLATED),
        "is compressed or encrypted",
    ),
    "encrypted": (_entry("archive/data/9", flag_bits=1), "is compressed or encrypted"),
    "overlapping": (
        _entry("archive/data/9", b"x", file_size=5000, compress_size=5000),
        "unpacks to more than it holds",
    ),
    "climbing": (_entry("archive/../../etc/passwd"), "the archive has an entry 'archive/../../etc/passwd'"),
    "absolute": (_entry("/etc/passwd"), "the archive has an entry '/etc/passwd'"),
    "backslash": (_entry("archive/a\\b"), "the archive has an entry"),
    "drive": (_entry("archive/C:x"), "the archive has an entry"),
    "no folder": (_entry("stray"), "the archive has an entry 'stray'"),
    "two folders": (_entry("other/x"), "the archive has 2 top folders"),
    "byte order": (_entry("archive/byteorder", b"middle"), "the byte order is b'middle'"),
    "program": (_entry("archive/code/x.py"), "this is a TorchScript archive"),
    "checksum": (
        zip_file(PICKLE, {"0": W.tobytes()}).replace(W.tobytes(), bytes(16)),
        "the archive is damaged: Bad CRC-32",
    ),
    "cut": (zip_file(PICKLE, {"0": W.tobytes()})[:-30], "the archive is damaged: File is not a zip file"),
    "text": (b"not a file of weights at all", "this is not a file that torch.save wrote"),
    "empty": (b"", "this is not a file that torch.save wrote"),
    "other pickle": (pickled({"a": 1}), "this is not a file that torch.save wrote"),
    "tar": (bytes(257) + b"ustar" + bytes(300), "this is the tar format"),
    "stream cut in the pickles": (stream_file(PICKLE, {"0": (4, W.tobytes())})[:60], "the pickle ends early"),
    "stream cut in a storage": (
        stream_file(PICKLE, {"0": (4, W.tobytes())})[:-1],
        "is truncated or of another length",
    ),
    "stream cut before a storage": (
        stream_file(PICKLE, {"0": (4, W.tobytes())})[:-24],
        "is truncated or of another length",
    ),
    "stream of another length": (
        stream_file(PICKLE, {"0": (3, W.tobytes()[:-4])}),
        "is truncated or of another length",
    ),
    "stream of negative length": (
        stream_file(PICKLE, {"0": (-4, W.tobytes())}),
        "is truncated or of another length",
    ),
    "stream with more": (
        stream_file(PICKLE, {"0": (4, W.tobytes())}) + b"x",
        "the file has 1 extra bytes at its end",
    ),
    "stream without the storage": (
        stream_file(PICKLE, {}),
        "the list of storages is not that of the tensors",
    ),
    "stream with a stranger": (
        stream_file(pickled({}), {"0": (4, W.tobytes())}),
        "the list of storages is not that",
    ),
    "stream with a key twice": (
        stream_file(PICKLE, {"0": (4, W.tobytes())}, keys=["0", "0"]),
        "the list of storages",
    ),
    "stream with numbers for keys": (
        stream_file(PICKLE, {"0": (4, W.tobytes())}, keys=[0]),
        "the list of storages",
    ),
    "stream without a system": (
        stream_file(PICKLE, {"0": (4, W.tobytes())}, system=3),
        "does not say its byte order",
    ),
    "vast stream": (
        stream_file(pickled(tensor(storage("0", "float32", 2**60), 0, (1,), (1,))), {"0": (2**60, b"")}),
        "is truncated or of another length",
    ),
}


@pytest.mark.parametrize("name", LIARS)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_containers_that_lie_are_refused(tmp_path: Path, name: str) -> None:
    content, text = LIARS[name]
    path = tmp_path / "x.pth"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load_pth(path)
    assert text in str(caught.value).splitlines()[0]
    assert str(path) in str(caught.value.where) and caught.value.expected and caught.value.remedy


def test_an_entry_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = _entry("archive/data.pkl", pickled({"other": 1}))
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(FileError, match=r"the archive has two entries 'archive/data\.pkl'"):
        load_pth(tmp_path / "x.pth")


@pytest.mark.parametrize("container", FORMATS)
def test_a_flip_in_any_byte_is_refused_or_harmless_but_never_a_crash(tmp_path: Path, container: str) -> None:
    arrays = {"0": np.arange(3, dtype=np.float32), "1": np.array([True, False])}
    value = {"w": whole("0", arrays["0"]), "b": whole("1", arrays["1"]), "n": 3}
    _load(tmp_path, value, arrays, container)
    content = (tmp_path / "x.pth").read_bytes()
    refused = 0
    for index in range(len(content)):
        for mask in (0x01, 0xFF):
            (tmp_path / "x.pth").write_bytes(
                content[:index] + bytes([content[index] ^ mask]) + content[index + 1 :]
            )
            try:
                load_pth(tmp_path / "x.pth")
            except FileError:
                refused += 1
    assert refused > len(content) / 2
