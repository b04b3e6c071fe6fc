"""Pickles made to harm: refused by name, with nothing executed, nothing imported and little memory taken."""

from __future__ import annotations

import ast
import pickle
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_files import Call, Global, code_of, pickled, storage, stream_file, tensor, zip_file

from trilobite.base.errors import FileError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import load_pth, pickle_reader

_events: list[str] | None = None


def _audit(event: str, _: Any) -> None:
    if _events is not None:
        _events.append(event)


sys.addaudithook(_audit)


@contextmanager
def audited() -> Iterator[list[str]]:
    """Everything that the interpreter reports of itself: imports, compilations, calls into the system."""
    global _events
    _events = seen = []
    try:
        yield seen
    finally:
        _events = None


def _refusal(tmp_path: Path, code: bytes, container: str = "zip") -> FileError:
    """The refusal of a file, after making sure that reading it did nothing but read."""
    path = tmp_path / "x.pth"
    path.write_bytes(zip_file(code, {"0": bytes(16)}) if container == "zip" else stream_file(code, {}))
    load_honest(tmp_path)
    modules = set(sys.modules)
    with audited() as events, pytest.raises(FileError) as caught:
        load_pth(path)
    assert set(events) <= {"open", "builtins.id"}, set(events)
    assert set(sys.modules) == modules
    assert caught.value.where and caught.value.expected and caught.value.remedy
    return caught.value


def load_honest(tmp_path: Path) -> None:
    """What reading imports, it has imported after this."""
    (tmp_path / "honest.pth").write_bytes(zip_file(pickled({}), {}))
    load_pth(tmp_path / "honest.pth")


# ---- code ----

TOUCH = "open({!r}, 'w').close()"


def _live(mark: Path) -> dict[str, bytes]:
    """Pickles that touch a file when Python's own reader reads them."""
    text = code_of(TOUCH.format(str(mark)))
    line = ascii(TOUCH.format(str(mark))).encode()
    evaluate = b"cbuiltins\neval\n"
    harm = evaluate + text + b"\x85R"
    return {
        "GLOBAL and REDUCE": b"\x80\x02" + harm + b".",
        "the shell": b"cos\nsystem\n" + code_of(f"touch {mark}") + b"\x85R.",
        "posix": b"cposix\nsystem\n" + code_of(f"touch {mark}") + b"\x85R.",
        "Python 2's name": b"c__builtin__\neval\n" + text + b"\x85R.",
        "STACK_GLOBAL": b"\x80\x04" + code_of("builtins") + code_of("exec") + b"\x93" + text + b"\x85R.",
        "dotted name": b"\x80\x04"
        + code_of("os")
        + code_of("path.os.system")
        + b"\x93"
        + code_of(f"touch {mark}")
        + b"\x85R.",
        "INST": b"(S" + line + b"\nibuiltins\neval\n.",
        "OBJ": b"(" + evaluate + text + b"o.",
        "from a memo": evaluate + b"q\x00" + text + b"\x85q\x010h\x00h\x01R.",
        "within a dict": b"}(" + code_of("a") + harm + b"u.",
        "within a tuple": b"(" + harm + b"t.",
        "as a key": b"}(" + harm + code_of(1) + b"u.",
        "then thrown away": harm + b"0N.",
        "after other values": code_of([1, 2, {"x": 3.5}]) + b"0" + harm + b".",
        "getattr": b"cbuiltins\ngetattr\n"
        + b"cos\nsystem\n"
        + code_of("__call__")
        + b"\x86R"
        + code_of(f"touch {mark}")
        + b"\x85R.",
        "state of an object": b"ccollections\nCounter\n)R}(" + code_of("x") + harm + b"ub.",
        "NEWOBJ": b"\x80\x02csubprocess\nPopen\n"
        + code_of((["touch", str(mark)],))
        + b"\x81"
        + b"0"
        + harm
        + b".",
        "NEWOBJ_EX": b"\x80\x04ccollections\nCounter\n)}\x920" + harm + b".",
        "operator": b"coperator\nmethodcaller\n" + code_of("system") + b"0" + harm + b".",
    }


NAMES = list(_live(Path("x")))


@pytest.mark.parametrize("container", ["zip", "stream"])
@pytest.mark.parametrize("name", NAMES)
def test_live_code_is_refused_and_not_run(tmp_path: Path, name: str, container: str) -> None:
    mark = tmp_path / "touched"
    code = _live(mark)[name]
    pickle.loads(code)
    for _ in range(6000):  # some start a process, which a busy machine lets wait
        if mark.exists():
            break
        time.sleep(0.01)
    assert mark.exists(), "the payload must be alive, or its refusal proves nothing"
    mark.unlink()
    refusal = _refusal(tmp_path, code, container)
    assert not mark.exists()
    assert "the file asks for " in refusal.what or "the pickle has the opcode " in refusal.what


def test_the_refused_global_is_named(tmp_path: Path) -> None:
    refusal = _refusal(tmp_path, pickled(Call(Global("os", "system"), ("echo",))))
    assert str(refusal) == (
        "the file asks for os.system, which is not needed to hold weights\n"
        f"  where: {tmp_path / 'x.pth'}\n"
        "  expected: numbers, strings, containers and tensors\n"
        "  remedy: save a plain state dict (torch.save(model.state_dict(), path)) or convert to safetensors"
    )


@pytest.mark.parametrize(
    "name", ["eval", "exec", "getattr", "__import__", "open", "compile", "dict", "object", "type"]
)
def test_builtins_that_are_not_data_are_refused(tmp_path: Path, name: str) -> None:
    assert f"asks for builtins.{name}," in _refusal(tmp_path, pickled(Global("builtins", name))).what


@pytest.mark.parametrize(
    "name",
    [
        "torch.load",
        "torch.hub.load",
        "torch._utils._import_dotted_name",
        "torch.nn.modules.linear.Linear",
        "torch.jit.load",
        "torch.storage._load_from_bytes",
        "torch._utils._rebuild_qtensor",
        "numpy.core.multiarray._reconstruct",
        "torch.FloatStorage.x",
        "collections.OrderedDict.fromkeys",
        "torch._utils._rebuild_tensor_v2.__globals__",
        "torch.Size.__reduce__",
    ],
)
def test_globals_near_the_known_ones_are_refused(tmp_path: Path, name: str) -> None:
    module, _, last = name.rpartition(".")
    assert f"asks for {name}," in _refusal(tmp_path, pickled(Global(module, last))).what


@pytest.mark.parametrize(
    ("code", "opcode"),
    [
        (b"ccollections\nOrderedDict\n)\x81.", "NEWOBJ"),
        (b"ccollections\nOrderedDict\n)}\x92.", "NEWOBJ_EX"),
        (b"(ccollections\nOrderedDict\no.", "OBJ"),
        (b"(icollections\nOrderedDict\n.", "INST"),
        (b"\x82\x01.", "EXT1"),
        (b"\x83\x01\x00.", "EXT2"),
        (b"\x84\x01\x00\x00\x00.", "EXT4"),
        (b"P0\n.", "PERSID"),
        (b"\x97.", "NEXT_BUFFER"),
        (b"\x98.", "READONLY_BUFFER"),
        (b"\xfe.", r"b'\xfe'"),
    ],
)
def test_opcodes_for_classes_are_refused_by_name(tmp_path: Path, code: bytes, opcode: str) -> None:
    assert _refusal(tmp_path, code).what == f"the pickle has the opcode {opcode}"


BROKEN = {
    "empty stack": (b"0.", "takes from an empty stack"),
    "mark not open": (b"t.", "closes a mark that is not open"),
    "mark left open": (b"N(N.", "does not leave exactly one value"),
    "two values": (b"NN.", "does not leave exactly one value"),
    "no value": (b".", "does not leave exactly one value"),
    "no stop": (b"N", "the pickle ends early"),
    "append to nothing": (b"Na.", "fills a list that is not there"),
    "append to a dict": (b"}Na.", "fills a list that is not there"),
    "items of a list": (b"](NNu.", "fills a dict that is not there"),
    "added to a list": (b"](N\x90.", "fills a set that is not there"),
    "recall of nothing": (b"h\x05.", "recalls the value 5, which it never stored"),
    "store of nothing": (b"q\x05N.", "stores a value that is not there"),
    "length beyond the file": (b"X\xff\xff\xff\x7fab.", "ends early or is too large"),
    "length of 64 bits": (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fab.", "ends early or is too large"),
    "long of 2 GB": (b"\x8b\xff\xff\xff\x7fab.", "ends early or is too large"),
    "bad text": (b"X\x02\x00\x00\x00\xc3\x28.", "text that is no text"),
    "bad integer": (b"I1x\n.", "has '1x' for an integer"),
    "Unicode digits": ("I١\n.".encode(), "text that is no text"),
    "endless integer": (b"I" + b"9" * 5000 + b"\n.", "for an integer"),
    "bad float": (b"Fnaan\n.", "has 'naan' for a number"),
    "line without end": (b"cos", "a line of the pickle does not end"),
    "endless line": (b"c" + b"a" * 100_000 + b"\n\n.", "a line of the pickle does not end"),
    "global named by a number": (
        b"\x80\x04K\x01K\x02\x93.",
        "names a global with something that is no string",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_pickles_are_refused(tmp_path: Path, name: str) -> None:
    code, text = BROKEN[name]
    assert text in _refusal(tmp_path, code).what


# ---- bombs ----


def _bounded(tmp_path: Path, code: bytes, megabytes: int) -> FileError:
    path = tmp_path / "x.pth"
    path.write_bytes(zip_file(code, {}))
    load_honest(tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(FileError) as caught:
            load_pth(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 1_000_000
    return caught.value


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bounds, smaller: so that reaching them takes no time."""
    monkeypatch.setattr(pickle_reader, "MAX_VALUES", 20_000)
    monkeypatch.setattr(pickle_reader, "MAX_STACK", 5_000)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (b"\x8f" * 10_000_000, "the pickle's stack is too deep"),
        (b"(" * 10_000_000, "the pickle has too many open marks"),
        (b"\x8f0" * 5_000_000, "the pickle makes more than 20000 values"),
        (
            b"N" + b"".join(b"r" + i.to_bytes(4, "little") for i in range(100_000)) + b".",
            "makes more than 20000 values",
        ),
        (b"N" + b"\x94" * 1_000_000 + b".", "makes more than 20000 values"),
        (b"N" + b"2" * 1_000_000 + b".", "the pickle's stack is too deep"),
        (b"K\x01" + b"\x85" * 1_000_000 + b".", "makes more than 20000 values"),
    ],
)
def test_floods_are_stopped(tmp_path: Path, code: bytes, text: str) -> None:
    assert text in _bounded(tmp_path, code, 40).what


def test_the_real_bounds_hold_memory_down(tmp_path: Path) -> None:
    assert "the pickle's stack is too deep" in _bounded(tmp_path, b"\x8f" * 1_000_100, 400).what


def test_a_memo_bomb_is_stopped(tmp_path: Path) -> None:
    """Ten references to a list of ten references to ...: small in memory, endless for whoever walks it."""
    code = b"]q\x00"
    for level in range(1, 30):
        code += b"](" + b"h" + bytes([level - 1]) + (b"h" + bytes([level - 1])) * 9 + b"eq" + bytes([level])
    refusal = _bounded(tmp_path, b"(" + code + b"\x85h\x1d\x851h\x1d.", 40)
    assert "unfolds into too many or too deeply nested values" in refusal.what


@pytest.mark.parametrize(
    "code", [b"]" * 300 + b"a" * 299 + b".", b"K\x01" + b"\x85" * 2000 + b".", b"(" * 500 + b"t" * 500 + b"."]
)
def test_depth_is_bounded(tmp_path: Path, code: bytes) -> None:
    assert "more than 100 deep" in _bounded(tmp_path, code, 40).what


def test_depth_through_the_memo_is_bounded(tmp_path: Path) -> None:
    """Each piece is shallow when it is met, but they are chained."""
    code = b"]q\x00"
    for level in range(1, 250):
        code += b"]h" + bytes([level - 1]) + b"aq" + bytes([level])
    assert "nested" in _bounded(tmp_path, b"(" + code + b"l.", 40).what


@pytest.mark.parametrize("code", [b"]2a.", b"}q\x00" + b"K\x01h\x00s.", b"]q\x00(h\x00t\x85a."])
def test_values_that_hold_themselves_are_refused(tmp_path: Path, code: bytes) -> None:
    assert "or in themselves" in _bounded(tmp_path, code, 40).what


# ---- anything at all ----

GLOBALS = """torch FloatStorage|torch BoolStorage|torch Size|torch float32|torch Tensor
|collections OrderedDict
|torch._utils _rebuild_tensor|torch._utils _rebuild_tensor_v2|torch._utils _rebuild_tensor_v3
|torch._utils _rebuild_parameter|torch._tensor _rebuild_from_type_v2"""
PIECES = [
    *(bytes([code]) for code in range(256)),
    *(b"q\x00", b"h\x00", b"q\x01", b"h\x01", b"](", b"}(", b")R", b"t", b"u", b"e"),
    *(code_of(value) for value in (0, 1, 2, -1, "0", "storage", "cpu", "w", "conj", "latin1")),
    *(f"c{module}\n{name}\n".encode() for module, name in (line.split() for line in GLOBALS.split("|"))),
    code_of(storage("0", "float32", 4)),
    code_of(tensor(storage("0", "float32", 4), 0, (2, 2), (2, 1))),
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join))
def test_any_opcodes_give_a_value_or_a_refusal(tmp_path_factory: pytest.TempPathFactory, code: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.pth"
    path.write_bytes(zip_file(code + b".", {"0": bytes(16)}))
    with suppress(FileError):
        load_pth(path)


# ---- by construction ----


def test_the_readers_have_no_way_to_run_anything() -> None:
    """No module of this room imports what executes; those that read pickles reach no attribute by name."""
    folder = Path(checkpoint.__file__).parent
    forbidden_imports = {
        "pickle",
        "_pickle",
        "cloudpickle",
        "marshal",
        "shelve",
        "importlib",
        "subprocess",
        "ctypes",
        "runpy",
        "torch",
    }
    forbidden_names = {"eval", "exec", "compile", "__import__", "globals", "locals", "vars", "breakpoint"}
    by_name = {"getattr", "setattr", "delattr", "attrgetter", "methodcaller"}
    files = sorted(folder.glob("*.py"))
    assert len(files) > 10
    for file in files:
        readers = file.stem in ("pickle_reader", "torch_values", "pth")
        banned = forbidden_names | (by_name if readers else set())
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & forbidden_imports, file
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in forbidden_imports, file
            elif isinstance(node, ast.Name):
                assert node.id not in banned, f"{file}:{node.lineno}: {node.id}"
