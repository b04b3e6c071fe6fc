"""Descriptions of tensors that do not hold: every number is checked against its storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_files import (
    ORDERED,
    Call,
    Global,
    Persistent,
    Raw,
    code_of,
    pickled,
    storage,
    tensor,
    whole,
    zip_file,
)

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint import load_pth, torch_values
from trilobite.framework.checkpoint.refusal import shown


def _builds(target: Any, state: Any) -> bytes:
    return pickled(Raw(code_of(target) + code_of(state) + b"b"))


W = np.arange(4, dtype=np.float32)
SIZED = storage("0", "float32", 4)
V2 = Global("torch._utils", "_rebuild_tensor_v2")
V3 = Global("torch._utils", "_rebuild_tensor_v3")
FROM_TYPE = Global("torch._tensor", "_rebuild_from_type_v2")
NO_HOOKS = Call(ORDERED, ())


def _nested_from_type(depth: int) -> Any:
    inner: Any = (SIZED, 0, (4,), (1,), False, NO_HOOKS)
    value: Any = Call(FROM_TYPE, (V2, Global("torch", "Tensor"), inner, {}))
    for _ in range(depth):
        inner = (FROM_TYPE, Global("torch", "Tensor"), inner, {})
        value = Call(FROM_TYPE, (FROM_TYPE, Global("torch", "Tensor"), inner, {}))
    return value


MALFORMED = {
    "state of a dict": (_builds({}, {"a": 1}), "sets the state of a dict (BUILD)"),
    "state of a tensor": (_builds(whole("0", W), {"a": 1}), "sets the state of a TensorView (BUILD)"),
    "state of an OrderedDict": (
        _builds(NO_HOOKS, {"__class__": 1}),
        "sets the state of a OrderedDict (BUILD)",
    ),
    "state by __setstate__": (
        _builds(NO_HOOKS, {"__setstate__": Global("torch", "Size")}),
        "sets the state of a OrderedDict",
    ),
    "state of a class": (
        _builds(Global("torch", "Size"), {"_metadata": 1}),
        "sets the state of a Constructor (BUILD)",
    ),
    "calls a number": (pickled(Raw(b"K\x01)R")), "the pickle calls a int"),
    "calls a dtype": (pickled(Call(Global("torch", "float32"), ())), "the pickle calls a Float32DType"),
    "calls a storage": (
        pickled(Call(Global("torch", "FloatStorage"), (10**12,))),
        "the pickle calls a StorageType",
    ),
    "arguments are a list": (pickled(Raw(code_of(ORDERED) + b"]R")), "the pickle calls a Constructor"),
    "hooks": (pickled(Call(V2, (SIZED, 0, (4,), (1,), False, {"a": 1}))), "a tensor has backward hooks"),
    "hooks of a parameter": (
        pickled(Call(Global("torch._utils", "_rebuild_parameter"), (whole("0", W), True, {1: 2}))),
        "backward hooks",
    ),
    "parameter of a list": (
        pickled(Call(Global("torch._utils", "_rebuild_parameter"), ([], True, NO_HOOKS))),
        "made from something else",
    ),
    "rebuilds with another function": (
        pickled(Call(FROM_TYPE, (ORDERED, Global("torch", "Tensor"), (), {}))),
        "is malformed",
    ),
    "rebuilds with itself": (pickled(_nested_from_type(3)), "is malformed"),
    "rebuilds another type": (pickled(Call(FROM_TYPE, (V2, ORDERED, (), {}))), "is malformed"),
    "too few arguments": (pickled(Call(V2, (SIZED,))), "is given 1 arguments, where it takes 6 to 7"),
    "too many arguments": (pickled(Call(V2, tuple(range(9)))), "is given 9 arguments"),
    "storage is a string": (pickled(tensor("0", 0, (4,), (1,))), "the description of a tensor is malformed"),
    "negative offset": (pickled(tensor(SIZED, -1, (4,), (1,))), "the description of a tensor is malformed"),
    "boolean offset": (pickled(tensor(SIZED, True, (1,), (1,))), "the description of a tensor is malformed"),
    "negative stride": (pickled(tensor(SIZED, 3, (4,), (-1,))), "a shape or stride is no tuple of sizes"),
    "negative extent": (pickled(tensor(SIZED, 0, (-4,), (1,))), "a shape or stride is no tuple of sizes"),
    "fractional extent": (pickled(tensor(SIZED, 0, (4.0,), (1,))), "a shape or stride is no tuple of sizes"),
    "shape is a dict": (pickled(tensor(SIZED, 0, {}, ())), "a shape or stride is no tuple of sizes"),
    "one stride missing": (pickled(tensor(SIZED, 0, (2, 2), (1,))), "a tensor has 2 axes but 1 strides"),
    "beyond the storage": (
        pickled(tensor(SIZED, 1, (4,), (1,))),
        "a tensor reaches element 4 of the storage '0', which has 4",
    ),
    "stride beyond": (pickled(tensor(SIZED, 0, (2,), (2**62,))), "a tensor reaches element"),
    "offset beyond": (pickled(tensor(SIZED, 2**62, (1,), (1,))), "a tensor reaches element"),
    "scalar beyond": (pickled(tensor(storage("0", "float32", 0), 0, (), ())), "a tensor reaches element 0"),
    "repeated without end": (
        pickled(tensor(SIZED, 0, (2**40, 4), (0, 1))),
        "a tensor repeats its storage to",
    ),
    "vast shape": (pickled(tensor(SIZED, 0, (2**40, 2**40), (0, 0))), "is larger than any memory"),
    "vast empty shape": (
        pickled(tensor(SIZED, 0, (0, 2**40, 2**40), (0, 0, 0))),
        "is larger than any memory",
    ),
    "too many axes": (pickled(tensor(SIZED, 0, (1,) * 65, (1,) * 65)), "the shape has 65 axes"),
    "another dtype": (
        pickled(Call(V3, (SIZED, 0, (4,), (1,), False, NO_HOOKS, Global("torch", "float64")))),
        "another dtype than its storage",
    ),
    "dtype is a string": (
        pickled(Call(V3, (SIZED, 0, (4,), (1,), False, NO_HOOKS, "float32"))),
        "another dtype than its storage",
    ),
    "unknown metadata": (
        pickled(tensor(SIZED, 0, (4,), (1,), {"hook": 1})),
        "metadata other than conj and neg",
    ),
    "metadata no bool": (
        pickled(tensor(SIZED, 0, (4,), (1,), {"neg": 1})),
        "metadata other than conj and neg",
    ),
    "negated integers": (
        pickled(tensor(storage("0", "int32", 4), 0, (4,), (1,), {"neg": True})),
        "conjugated or negated",
    ),
    "id is a number": (pickled(Persistent(3)), "refers to a 'int' outside the pickle"),
    "id of a module": (
        pickled(Persistent(("module", 1, 2, 3, 4))),
        "refers to a 'module' outside the pickle",
    ),
    "id of a list": (pickled(Persistent(([], 1, 2, 3, 4))), "refers to a 'tuple' outside the pickle"),
    "storage type is a string": (
        pickled(Persistent(("storage", "Float", "0", "cpu", 4))),
        "description of a storage is malformed",
    ),
    "storage key is a number": (
        pickled(Persistent(("storage", Global("torch", "FloatStorage"), 0, "cpu", 4))),
        "is malformed",
    ),
    "storage length is negative": (
        pickled(storage("0", "float32", -4)),
        "description of a storage is malformed",
    ),
    "storage length is a fraction": (
        pickled(storage("0", "float32", 4.0)),
        "description of a storage is malformed",
    ),
    "storage in two ways": (
        pickled([tensor(SIZED, 0, (4,), (1,)), tensor(storage("0", "int32", 4), 0, (4,), (1,))]),
        "in two ways",
    ),
    "storage in two lengths": (
        pickled([tensor(SIZED, 0, (4,), (1,)), tensor(storage("0", "float32", 3), 0, (3,), (1,))]),
        "in two ways",
    ),
    "view beyond": (
        pickled(storage("0", "float32", 4, ("v", 2, 3))),
        "a view reaches beyond the storage '0'",
    ),
    "view malformed": (pickled(storage("0", "float32", 4, ("v", 2))), "a view of a storage is malformed"),
    "bare storage": (pickled(SIZED), "the file holds a Storage as a value"),
    "bare class": (pickled([ORDERED]), "the file holds a Constructor as a value"),
    "bools that are none": (
        pickled(tensor(storage("1", "bool", 2), 0, (2,), (1,))),
        "the storage '1' holds bytes that are no bool",
    ),
    "pairs of one": (pickled(Call(ORDERED, ([(1,)],))), "made from something else than pairs"),
    "set of lists": (pickled(Call(Global("builtins", "set"), ([[1]],))), "a list is used as a key"),
    "set of a number": (
        pickled(Call(Global("builtins", "set"), (3,))),
        "made from something else than a list",
    ),
    "vast bytearray": (
        pickled(Call(Global("builtins", "bytearray"), (2**40,))),
        "made from something else than bytes",
    ),
    "bytes by another codec": (
        pickled(Call(Global("_codecs", "encode"), ("a", "rot13"))),
        "another way than latin1",
    ),
    "bytes of wide letters": (
        pickled(Call(Global("_codecs", "encode"), ("☃", "latin1"))),
        "another way than latin1",
    ),
    "device of a list": (
        pickled(Call(Global("torch", "device"), ([],))),
        "a device is named by something else",
    ),
    "complex of strings": (
        pickled(Call(Global("builtins", "complex"), ("1", "2"))),
        "a complex number is made from",
    ),
    "dict as key": (pickled(Raw(b"}(}Nu")), "a dict is used as a key"),
    "tensor as key": (pickled(Raw(b"}(" + code_of(whole("0", W)) + b"Nu")), "a TensorView is used as a key"),
    "colliding key": (pickled({2**61 - 1: 1}), "an integer of more than 60 bits is used as a key"),
    "deep key": (pickled(Raw(b"}(K\x01" + b"\x85" * 100_000 + b"Nu")), "a tuple is used as a key"),
    "key without value": (pickled(Raw(b"}(K\x01u")), "a key without a value"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_descriptions_are_refused(tmp_path: Path, name: str) -> None:
    code, text = MALFORMED[name]
    path = tmp_path / "x.pth"
    path.write_bytes(zip_file(code, {"0": bytes(16), "1": b"\x01\x02"}))
    with pytest.raises(FileError) as caught:
        load_pth(path)
    assert text in str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("value", "size", "height"),
    [([], 1, 1), ([1], 2, 1), ({"a": 1, "b": (2, 3)}, 5, 2), ([[[7]]], 4, 3), ([[1, 2], [3], 4], 7, 2)],
)
def test_values_are_counted_one_by_one_up_to_the_bound(
    value: Any, size: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a tree: each container and each value once, and containers in containers."""
    monkeypatch.setattr(torch_values, "MAX_EXPANDED_VALUES", size)
    monkeypatch.setattr(torch_values, "MAX_DEPTH", height)
    assert torch_values.Materialiser({}, "here").value(value) == value
    for name, most in (("MAX_EXPANDED_VALUES", size - 1), ("MAX_DEPTH", height - 1)):
        with monkeypatch.context() as patch:
            patch.setattr(torch_values, name, most)
            with pytest.raises(FileError, match=r"too many or too deeply nested values|more than"):
                torch_values.Materialiser({}, "here").value(value)


def test_names_of_files_are_shown_whole_up_to_their_bound() -> None:
    for length in (0, 1, 119, 120):
        assert shown("n" * length) == repr("n" * length)
    for length in (121, 5000):
        assert shown("n" * length) == repr("n" * 120 + "...")
