"""Features of ai.onnx.ml: scaling, encoding, picking. They run on the host: features may be strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.inference.model import Node
from trilobite.inference.operators.ml.scores import label_array
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.strings import texts

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=ML, host=True, gives="same")
def array_feature_extractor(node: Node, x: Array, places: Array) -> Array:
    out = x[..., places.reshape(-1)]
    return out.reshape(1, -1) if x.ndim == 1 else out


@operator("Binarizer", domain=ML, host=True, gives="numbers")
def binarizer(node: Node, x: Array) -> Array:
    return (x > node.attribute("threshold", 0.0)).astype(x.dtype)


@operator("Scaler", domain=ML, host=True, gives="numbers")
def scaler(node: Node, x: Array) -> Array:
    offset = np.asarray(node.attribute("offset") or (0.0,), np.float32)
    scale = np.asarray(node.attribute("scale") or (1.0,), np.float32)
    return ((x - offset) * scale).astype(np.float32)


@operator("Normalizer", domain=ML, host=True, gives="numbers")
def normalizer(node: Node, x: Array) -> Array:
    how = node.attribute("norm", "MAX")
    wide = x.astype(np.float32)
    if how == "MAX":
        by = wide.max(axis=-1, keepdims=True)
    elif how == "L1":
        by = np.abs(wide).sum(axis=-1, keepdims=True)
    else:
        by = np.sqrt((wide * wide).sum(axis=-1, keepdims=True))
    return np.where(by == 0, wide, wide / np.where(by == 0, 1, by)).astype(np.float32)


@operator("Imputer", domain=ML, host=True, gives="numbers")
def imputer(node: Node, x: Array) -> Array:
    whole = node.attribute("imputed_value_int64s")
    values = np.asarray(whole or node.attribute("imputed_value_floats"), x.dtype)
    old = node.attribute("replaced_value_int64" if whole else "replaced_value_float", 0)
    missing = np.isnan(x) if isinstance(old, float) and np.isnan(old) else x == old
    return np.where(missing, values, x)


@operator("FeatureVectorizer", domain=ML, host=True, gives="numbers")
def feature_vectorizer(node: Node, *parts: Array) -> Array:
    sizes = node.attribute("inputdimensions") or [None] * len(parts)
    rows = [p.reshape(1, -1) if p.ndim == 1 else p for p in parts]
    return np.concatenate([r[:, :n] for r, n in zip(rows, sizes, strict=True)], axis=1).astype(np.float32)


@operator("OneHotEncoder", domain=ML, host=True, gives="numbers")
def one_hot_encoder(node: Node, x: Array) -> Array:
    names = node.attribute("cats_strings")
    classes = texts(names) if names else np.asarray(node.attributes["cats_int64s"])
    given = x if names else x.astype(np.int64)
    out = (given[..., None] == classes).astype(np.float32)
    if not node.attribute("zeros", 1) and not out.any(axis=-1).all():
        raise ArgumentError(f"{node.label()} met a category that it does not know")
    return out


def _mapped(x: Array, table: dict[Any, Any], default: Any, dtype: Any) -> Array:
    found = [table.get(_key(v), default) for v in x.reshape(-1).tolist()]
    return texts(found, x.shape) if dtype is object else np.asarray(found, dtype).reshape(x.shape)


def _key(v: Any) -> Any:
    return "<nan>" if isinstance(v, float) and np.isnan(v) else v


@operator("CategoryMapper", domain=ML, host=True)
def category_mapper(node: Node, x: Array) -> Array:
    words, numbers = node.attributes["cats_strings"], node.attributes["cats_int64s"]
    if x.dtype == object:
        return _mapped(
            x, dict(zip(words, numbers, strict=True)), node.attribute("default_int64", -1), np.int64
        )
    return _mapped(
        x, dict(zip(numbers, words, strict=True)), node.attribute("default_string", "_Unused"), object
    )


_SIDES: dict[str, tuple[Any, Any]] = {
    "strings": (object, "_Unused"), "int64s": (np.int64, -1), "floats": (np.float32, np.float32(-0.0)),
}  # fmt: skip


@operator("LabelEncoder", domain=ML, host=True)
def label_encoder(node: Node, x: Array) -> Array:
    """One value for another, by two lists of equal length."""
    if "classes_strings" in node.attributes:
        return _encoder_1(node, x)
    keys, _, _ = _side(node, "keys")
    values, dtype, default = _side(node, "values")
    table = {_key(k): v for k, v in zip(keys, values, strict=True)}
    return _mapped(x, table, default, dtype)


def _encoder_1(node: Node, x: Array) -> Array:
    """Version 1: strings and their places in a list."""
    words = node.attributes["classes_strings"]
    if x.dtype == object:
        return _mapped(x, {w: i for i, w in enumerate(words)}, node.attribute("default_int64", -1), np.int64)
    return _mapped(x, dict(enumerate(words)), node.attribute("default_string", "_Unused"), object)


def _side(node: Node, name: str) -> tuple[Any, Any, Any]:
    """Keys or values: the list, its dtype, and what stands for a missing one."""
    tensor = node.attribute(f"{name}_tensor")
    if tensor is not None:
        dtype = object if tensor.dtype == object else tensor.dtype
        given = node.attribute("default_tensor")
        usual: Any = "_Unused" if dtype is object else (-1 if tensor.dtype.kind in "iu" else -0.0)
        return tensor.reshape(-1).tolist(), dtype, usual if given is None else given.reshape(-1)[0]
    for kind, (dtype, usual) in _SIDES.items():
        if f"{name}_{kind}" in node.attributes:
            default = node.attribute(f"default_{kind.removesuffix('s')}", usual)
            values = node.attributes[f"{name}_{kind}"]
            return [float(np.float32(v)) for v in values] if dtype is np.float32 else values, dtype, default
    raise ArgumentError(f"{node.label()} has no {name}", expected=f"one of the attributes {name}_*")


@operator("ZipMap", domain=ML, host=True)
def zip_map(node: Node, x: Array) -> Any:
    labels = node.attribute("classlabels_int64s") or node.attributes["classlabels_strings"]
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    return ([dict(zip(labels, map(float, row), strict=True)) for row in rows],)


@operator("DictVectorizer", domain=ML, host=True, gives="numbers")
def dict_vectorizer(node: Node, x: dict[Any, Any]) -> Array:
    words = node.attribute("string_vocabulary") or node.attributes["int64_vocabulary"]
    values = [x.get(w, 0) for w in words]
    return label_array(values).reshape(1, -1) if isinstance(values[0], str) else np.asarray([values])


@operator("CastMap", domain=ML, host=True)
def cast_map(node: Node, x: dict[int, Any]) -> Array:
    if node.attribute("map_form", "DENSE") == "DENSE":
        values = [x[k] for k in sorted(x)]
    else:
        values = [x.get(k, 0) for k in range(node.attribute("max_map", 1))]
    to = node.attribute("cast_to", "TO_FLOAT")
    if to == "TO_STRING":
        return texts([str(v) for v in values], (1, -1))
    return np.asarray([[float(v) for v in values]]).astype(np.float32 if to == "TO_FLOAT" else np.int64)
