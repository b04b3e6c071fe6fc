"""Each form that HDF5 has for a thing, made byte by byte, read to the same; each bound from both sides."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from tests.inference.formats import hdf5_files as h5
from trilobite.base.errors import ArgumentError, FileError
from trilobite.inference.formats.hdf5.file import Group, open_file

NUMBERS = np.arange(3 * 5).reshape(3, 5) * 7 - 20


def dataset(f: h5.File, array: np.ndarray, *more: tuple[int, bytes]) -> int:
    named = array.dtype.newbyteorder("<") if array.dtype.byteorder == "=" else array.dtype
    text = named.str.replace("|", "<")
    rows = [h5.space(array.shape), h5.kind(text), h5.whole(f.add(array.tobytes()), array.nbytes)]
    return f.first([*rows, *more])


def opened(*found: tuple[int, bytes]) -> Group:
    """A file whose root has these messages."""
    f = h5.File()
    return open_file(f.done(f.first(found)))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("deep", [False, True])
def test_superblocks_and_trees_of_symbols(version: int, deep: bool) -> None:
    f = h5.File(version)
    made = {name: dataset(f, NUMBERS + n) for n, name in enumerate(("a", "longer name", "b", "c", "dd"))}
    root = open_file(f.done(f.first([f.table(list(made.items()), deep)])))
    assert list(root.members()) == list(made) and root.members() == made
    for n, name in enumerate(made):
        assert np.array_equal(root[name].array(), NUMBERS + n)
    assert "b" in root and "e" not in root and not root.is_dataset and root["a"].is_dataset
    with pytest.raises(ArgumentError, match=r"there is no 'e'[\s\S]*'dd', 'longer name'"):
        root["e"]


@pytest.mark.parametrize("flags", [0, 1, 2, 3, 4, 0x10, 0x20, 0x37])
def test_second_headers_and_links(flags: int) -> None:
    """Sizes of each width; times and phases are stepped over, continued blocks are followed."""
    f = h5.File(2)
    leaf = f.second([h5.space([4], 2), h5.kind(">i2")], flags, [h5.compact(struct.pack(">4h", 1, -2, 3, 4))])
    inner = f.second([h5.link("leaf", leaf, flags & 3 | 4 | 16), h5.link("same", leaf, 8)], flags)
    root = open_file(f.done(f.second([], flags, [h5.link("inner", inner, flags & 3)])))
    assert [path for path, _ in root.walk()] == ["inner/leaf", "inner/same"]
    assert "inner/leaf" in root and "inner/none" not in root and "none/leaf" not in root
    for name in ("leaf", "same"):
        found = root[f"/inner/{name}/"].array()
        assert found.tolist() == [1, -2, 3, 4] and found.dtype == np.int16
    assert [path for path, _ in root["inner"].walk("up")] == ["up/leaf", "up/same"]


def test_links_that_lead_elsewhere_and_heaps_of_links() -> None:
    with pytest.raises(FileError, match="the link 'x' leads elsewhere"):
        opened(h5.link("x", 0, 8, of=1)).members()
    for message, ask, text in (
        (h5.LINKS, Group.members, "keeps its links in a fractal heap"),
        (h5.ABOUT, lambda g: g.attributes, "keeps its attributes in a fractal heap"),
    ):
        for flags in (0, 1):
            wide = bytes(8 if message == h5.LINKS else 2) if flags else b""
            nothing = bytes([0, flags]) + wide + struct.pack("<Q", h5.NOWHERE)
            assert ask(opened((message, nothing))) == {}
            with pytest.raises(FileError, match=text):
                ask(opened((message, nothing[:-8] + struct.pack("<Q", 96))))


@pytest.mark.parametrize(
    "dtype", ["<i1", "<i2", ">i4", "<i8", "<u1", ">u2", "<u4", ">u8", "<f2", ">f4", ">f8"]
)
def test_numbers_of_each_type_and_order(dtype: str) -> None:
    f = h5.File()
    array = (NUMBERS % 99).astype(dtype)
    found = open_file(f.done(dataset(f, array))).array()
    assert (
        np.array_equal(found, array) and found.dtype == array.dtype.newbyteorder("=") and found.dtype.isnative
    )


def test_enumerations_are_the_numbers_below_them() -> None:
    below = h5.kind("<u1")[1]
    outer = struct.pack("<B3BI", 0x18, 2, 0, 0, 1)
    for depth, refused in ((1, False), (4, False), (5, True)):
        found = opened(h5.space([3]), (h5.TYPE, outer * depth + below), h5.compact(b"\1\0\2"))
        if refused:
            with pytest.raises(FileError, match="class 8, 1 bytes wide"):
                found.array()
        else:
            assert found.array().tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("head", "size"), [(0x10, 3), (0x10, 16), (0x11, 1), (0x11, 16), (0x13, 0), (0x16, 8)]
)
def test_types_that_are_not_read(head: int, size: int) -> None:
    kind = (h5.TYPE, struct.pack("<B3BI", head, 0, 0, 0, size) + bytes(12))
    with pytest.raises(FileError, match=f"data of HDF5's class {head & 15}, {size} bytes wide"):
        opened(h5.space([1]), kind, h5.compact(bytes(16))).array()
    with pytest.raises(FileError, match="a dataset of texts"):
        opened(h5.space([1]), h5.kind("S4"), h5.compact(bytes(4))).array()


def test_data_that_were_never_written_are_zeros() -> None:
    for layout in (h5.whole(h5.NOWHERE, 0), h5.chunked(h5.NOWHERE, (2, 2), 4)):
        found = opened(h5.space([2, 3]), h5.kind("<f4"), layout).array()
        assert found.shape == (2, 3) and found.dtype == np.float32 and not found.any()
    assert opened(h5.space([0, 3]), h5.kind("<f4"), h5.whole(7, 0)).array().shape == (0, 3)


@pytest.mark.parametrize(("version", "layout"), [(2, 1), (5, 1), (4, 2)])
def test_layouts_that_are_not_read(version: int, layout: int) -> None:
    made = h5.whole(h5.NOWHERE, 0, version) if layout == 1 else h5.chunked(h5.NOWHERE, (2,), 4, version)
    with pytest.raises(FileError, match=f"data are laid out in version {version}"):
        opened(h5.space([2]), h5.kind("<f4"), made).array()
    assert opened(h5.space([2]), h5.kind("<u1"), h5.compact(b"\3\4", 4)).array().tolist() == [3, 4]


def pieces(array: np.ndarray, chunk: tuple[int, int]) -> list[tuple[bytes, tuple[int, int]]]:
    """Whole chunks, padded with sevens beyond the edge."""
    rows = []
    for i in range(0, array.shape[0], chunk[0]):
        for j in range(0, array.shape[1], chunk[1]):
            part = np.full(chunk, 7, array.dtype)
            inside = array[i : i + chunk[0], j : j + chunk[1]]
            part[: inside.shape[0], : inside.shape[1]] = inside
            rows.append((part.tobytes(), (i, j)))
    return rows


def shuffled(raw: bytes, width: int) -> bytes:
    return b"".join(raw[k::width] for k in range(width))


PACKED = {
    "plain": ([], lambda raw: raw),
    "deflated": ([(1, [6])], zlib.compress),
    "shuffled": ([(2, [4])], lambda raw: shuffled(raw, 4)),
    "summed": ([(3, [])], lambda raw: raw + b"sums"),
    "all": ([(2, [4]), (1, [1]), (3, [])], lambda raw: zlib.compress(shuffled(raw, 4)) + b"sums"),
    "by one": ([(2, [])], lambda raw: raw),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("chunk", [(1, 5), (2, 2), (3, 5), (4, 7)])
def test_chunks_and_their_filters(name: str, chunk: tuple[int, int], version: int) -> None:
    settings, pack = PACKED[name]
    f, array = h5.File(), NUMBERS.astype(np.int32)
    tree = f.chunks([(pack(raw), 0, at) for raw, at in pieces(array, chunk)])
    rows = [h5.space(array.shape), h5.kind("<i4"), h5.chunked(tree, chunk, 4)]
    if settings:
        rows.append(h5.filters(settings, version))
    assert np.array_equal(open_file(f.done(f.first(rows))).array(), array)


def test_a_chunk_may_leave_out_some_filters() -> None:
    """Bit k of its mask: filter k was not used."""
    f, array = h5.File(), NUMBERS.astype(np.int32)
    (raw, at), *others = pieces(array, (2, 5))
    rows = [(zlib.compress(raw), 1, at), *((shuffled(one, 4), 2, place) for one, place in others)]
    found = [h5.space(array.shape), h5.kind("<i4"), h5.chunked(f.chunks(rows), (2, 5), 4)]
    assert np.array_equal(
        open_file(f.done(f.first([*found, h5.filters([(2, [4]), (1, [])])]))).array(), array
    )


def chunk_file(
    raw: bytes, chunk: tuple[int, ...] = (4,), shape: tuple[int, ...] = (4,),
    at: tuple[int, ...] = (0,), packed: tuple[int, bytes] | None = None,
) -> Group:  # fmt: skip
    f = h5.File()
    rows = [h5.space(shape), h5.kind("<i4"), h5.chunked(f.chunks([(raw, 0, at)]), chunk, 4)]
    return open_file(f.done(f.first([*rows, *([packed] if packed else [])])))


def test_chunks_that_do_not_fit_are_refused() -> None:
    raw = np.arange(4, dtype=np.int32).tobytes()
    assert chunk_file(raw).array().tolist() == [0, 1, 2, 3]
    assert chunk_file(raw, shape=(7,), at=(4,)).array().tolist() == [0, 0, 0, 0, 0, 1, 2]
    large = (1 << 24) // 4 * 4  # four times the data, or 64 MB, whatever is more
    for made, text in (
        (chunk_file(raw[:-1]), "a chunk has 15 bytes[\\s\\S]*16"),
        (chunk_file(raw + b"\0"), "a chunk has 17 bytes"),
        (chunk_file(raw, at=(4,)), "a chunk at \\(4,\\) of data \\(4,\\)"),
        (chunk_file(raw, chunk=(2, 2)), "chunks \\(2, 2\\) of data \\(4,\\)"),
        (chunk_file(raw, chunk=(0,)), "chunks \\(0,\\) of data"),
        (chunk_file(raw, chunk=(large + 1,)), f"a chunk of {4 * large + 4} bytes for data of 16"),
        (chunk_file(raw, chunk=(large,)), "a chunk has 16 bytes"),
        (chunk_file(raw, packed=h5.filters([(4, [])])), "data packed by filter 4[\\s\\S]*deflate, shuffle"),
        (chunk_file(raw, packed=h5.filters([(300, [])])), "data packed by filter 300"),
        (chunk_file(raw, packed=h5.filters([(1, [])])), "a chunk cannot be unpacked"),
        (chunk_file(raw, packed=h5.filters([(2, [3])])), "shuffled by a width that it does not have"),
        (chunk_file(raw, packed=h5.filters([(2, [0])])), "shuffled by a width that it does not have"),
        (chunk_file(zlib.compress(raw + raw), packed=h5.filters([(1, [])])), "a chunk has 24 bytes"),
        (chunk_file(raw, shape=(1 << 20,)), "the data would take 4194304 bytes"),
    ):
        with pytest.raises(FileError, match=text):
            made.array()
    assert chunk_file(raw, shape=(1 << 18,)).array()[:5].tolist() == [0, 1, 2, 3, 0]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_attributes_of_each_version(version: int) -> None:
    f = h5.File()
    words = f.heap([b"first", b"", b"a longer third"])
    rows = [
        h5.attribute("numbers", h5.kind(">i2"), h5.space([3]), struct.pack(">3h", 4, -5, 6), version),
        h5.attribute("one", h5.kind("<f8"), h5.space([]), struct.pack("<d", 2.5), version),
        h5.attribute("short", h5.kind("S6"), h5.space([]), b"abc\0xy", version),
        h5.attribute("pairs", h5.kind("S2"), h5.space([2]), b"ab\0d", version),
        h5.attribute("words", h5.kind("*"), h5.space([3]), words, version),
        h5.attribute("word", h5.kind("*"), h5.space([]), words[32:], version),
    ]
    found = open_file(f.done(f.first(rows[:3], rows[3:]))).attributes
    assert found["numbers"].tolist() == [4, -5, 6] and found["one"] == 2.5 and found["one"].shape == ()
    assert found["short"] == "abc" and found["pairs"] == ["ab", ""]
    assert found["words"] == ["first", "", "a longer third"] and found["word"] == "a longer third"
    assert list(found) == ["numbers", "one", "short", "pairs", "words", "word"]


def test_attributes_that_end_too_early() -> None:
    for data, missing in ((b"\1\0\2", True), (b"\1\0\2\0", False)):
        root = opened(h5.attribute("a", h5.kind("<u2"), h5.space([2]), data, 3))
        if missing:
            f = h5.File(2)
            root = open_file(f.done(f.second([h5.attribute("a", h5.kind("<u2"), h5.space([2]), data, 3)])))
            with pytest.raises(FileError, match=r"the attribute 'a' is cut off[\s\S]*4 bytes"):
                _ = root.attributes
        else:
            assert root.attributes["a"].tolist() == [1, 2]
    f = h5.File()
    lost = f.heap([b"first"])[:-4] + struct.pack("<I", 2)
    made = f.done(f.first([h5.attribute("a", h5.kind("*"), h5.space([]), lost)]))
    with pytest.raises(FileError, match="text 2 is not on its heap"):
        _ = open_file(made).attributes


@pytest.mark.parametrize("rank", [0, 1, 32, 33])
def test_axes(rank: int) -> None:
    root = opened(h5.space([1] * rank), h5.kind("<i1"), h5.compact(b"\x05"))
    if rank <= 32:
        assert root.shape == (1,) * rank and root.array().item() == 5
    else:
        with pytest.raises(FileError, match="data have 33 axes"):
            _ = root.shape


def test_what_is_no_hdf5_or_of_another_kind() -> None:
    f = h5.File()
    made = f.done(dataset(f, NUMBERS))
    with pytest.raises(FileError, match="does not begin as HDF5 does"):
        open_file(b"\x88" + made[1:])
    for version in (4, 255):
        with pytest.raises(FileError, match=f"an HDF5 file of version {version}[\\s\\S]*versions 0 to 3"):
            open_file(made[:8] + bytes([version]) + made[9:])
    for widths in (b"\4\x08", b"\x08\4"):
        with pytest.raises(FileError, match="addresses of another width than 8 bytes"):
            open_file(h5.File().done(96, widths))
    with pytest.raises(FileError, match="an object has no message 3"):
        opened(h5.space([1]), h5.compact(b"\0")).array()


def test_headers_that_lead_nowhere_or_round() -> None:
    f = h5.File()
    root = f.first([h5.space([1])])
    whole = f.done(root)
    with pytest.raises(FileError, match=f"an address {len(whole)} lies outside of the file"):
        open_file(f.done(len(whole)))
    with pytest.raises(FileError, match=f"there is no object at {root}"):
        open_file(whole[:root] + b"\2" + whole[root + 1 :])
    f = h5.File(2)
    root = f.second([h5.space([1])])
    whole = f.done(root)
    with pytest.raises(FileError, match=r"an object header of unknown version[\s\S]*version 1 or 2"):
        open_file(whole[: root + 4] + b"\3" + whole[root + 5 :])
    f = h5.File()
    itself = h5.CONTINUED, struct.pack("<QQ", f.here, 24)
    with pytest.raises(FileError, match="an object's blocks go round"):
        open_file(f.done(f.first([], [itself])))
    with pytest.raises(FileError, match="a continuation is cut off"):
        opened((h5.CONTINUED, bytes(8)))
    f = h5.File()
    table = f.table([("a", 96)])[1]
    tree = struct.unpack("<Q", table[:8])[0]
    made = bytearray(f.done(f.first([(h5.TABLE, table)])))
    made[tree : tree + 4] = b"TREF"
    with pytest.raises(FileError, match=f"there is no block TREE at {tree}"):
        open_file(bytes(made)).members()
    made[tree : tree + 5] = b"TREE\1"  # a tree of chunks
    with pytest.raises(FileError, match="does not become smaller towards its leaves"):
        open_file(bytes(made)).members()
    f = h5.File()
    heap = f.add(b"HEAP" + struct.pack("<4xQQQ", 8, h5.NOWHERE, 96) + bytes(8))
    node = f.add(b"SNOD" + struct.pack("<BxHQQ24x", 1, 1, 8, 96))
    table = (h5.TABLE, struct.pack("<QQ", f.tree(0, 0, [(bytes(8), node)]), heap))
    with pytest.raises(FileError, match="a name lies outside of its heap"):
        open_file(f.done(f.first([table]))).members()


@pytest.mark.parametrize("depth", [48, 49])
def test_groups_within_groups(depth: int) -> None:
    f = h5.File()
    at = dataset(f, NUMBERS)
    for _ in range(depth):
        at = f.first([h5.link("a", at)])
    root = open_file(f.done(at))
    if depth == 48:
        assert [path for path, _ in root.walk()] == ["/".join("a" * 48)]
    else:
        with pytest.raises(FileError, match="groups are nested more than 48 deep"):
            list(root.walk())
