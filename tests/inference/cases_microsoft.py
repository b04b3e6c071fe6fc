"""Models of one operator of com.microsoft each, with random operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.inference.conftest import Model, model, node

rng = np.random.default_rng(3)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return rng.integers(0, 255, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return rng.integers(-60, 60, shape).astype(np.int8)  # 7 bits: more saturate in their kernels


def s(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


def z(value: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.asarray(value, dtype)


def ids(limit: int, *shape: int) -> np.ndarray:
    return rng.integers(0, limit, shape).astype(np.int32)


def choice(*shape: int) -> np.ndarray:
    """A mask that leaves each row something."""
    mask = rng.integers(0, 2, shape).astype(np.int32)
    mask[..., 0] = 1
    return mask


HEADS = {"num_heads": 4}
NBITS = {"K": 72, "N": 20, "bits": 4, "block_size": 32}
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
GQA = {"num_heads": 4, "kv_num_heads": 2}
CASES: dict[str, tuple[str, list[np.ndarray | None], int, dict[str, Any]]] = {
    "gelu": ("Gelu", [f(3, 7)], 1, {}),
    "bias gelu": ("BiasGelu", [f(3, 7), f(7)], 1, {}),
    "fast gelu": ("FastGelu", [f(3, 7), f(7)], 1, {}),
    "quick gelu": ("QuickGelu", [f(3, 7)], 1, {}),
    "skip norm": ("SkipLayerNormalization", [f(2, 5, 8), f(2, 5, 8), f(8), f(8), f(8)], 4, {"epsilon": 1e-5}),
    "skip rms": ("SkipSimplifiedLayerNormalization", [f(2, 5, 8), f(2, 5, 8), f(8)], 4, {"epsilon": 1e-5}),
    "fused matmul": ("FusedMatMul", [f(3, 5, 4), f(3, 6, 5)], 1, {"transA": 1, "transB": 1, "alpha": 0.3}),
    "fused conv": ("FusedConv", [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4)], 1, {"activation": "Relu"}),
    "fused gemm": (
        "FusedGemm",
        [f(5, 6), f(6, 7), f(7)],
        1,
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    "nbits": ("MatMulNBits", [f(3, 72), u8(20, 3, 16), f(60)], 1, NBITS),
    "nbits zeros": ("MatMulNBits", [f(3, 72), u8(20, 3, 16), f(60), u8(40)], 1, NBITS),
    "nbits 8": ("MatMulNBits", [f(3, 72), u8(20, 3, 32), f(60)], 1, {**NBITS, "bits": 8}),
    "attention": ("Attention", [f(2, 6, 16), f(16, 48), f(48)], 1, HEADS),
    "attention lengths": ("Attention", [f(2, 6, 16), f(16, 48), f(48), np.array([6, 4], np.int32)], 1, HEADS),
    "attention causal": ("Attention", [f(2, 6, 16), f(16, 48), f(48)], 1, {**HEADS, "unidirectional": 1}),
    "attention past": (
        "Attention",
        [f(2, 3, 16), f(16, 48), f(48), None, f(2, 2, 4, 5, 4)],
        2,
        {**HEADS, "unidirectional": 1},
    ),
    "heads": ("MultiHeadAttention", [f(2, 6, 16), f(2, 7, 16), f(2, 7, 16), f(48)], 1, HEADS),
    "heads mask": (
        "MultiHeadAttention",
        [f(2, 6, 16), f(2, 7, 16), f(2, 7, 16), None, (rng.random((2, 7)) > 0.3).astype(np.int32)],
        1,
        HEADS,
    ),
    "rotary": (
        "RotaryEmbedding",
        [f(2, 5, 16), np.arange(10).reshape(2, 5), f(12, 2), f(12, 2)],
        1,
        {},
    ),
    "grouped": (
        "GroupQueryAttention",
        [f(1, 5, 32), f(1, 5, 16), f(1, 5, 16), None, None, np.array([4], np.int32), np.array(5, np.int32)],
        3,
        GQA,
    ),
    "grouped past": (
        "GroupQueryAttention",
        [
            f(1, 1, 32),
            f(1, 1, 16),
            f(1, 1, 16),
            f(1, 2, 5, 8),
            f(1, 2, 5, 8),
            np.array([5], np.int32),
            np.array(6, np.int32),
        ],
        3,
        GQA,
    ),
    "q add": ("QLinearAdd", [u8(3, 5), s(0.1), z(120), u8(5), s(0.2), z(99), s(0.3), z(128)], 1, {}),
    "q mul": (
        "QLinearMul",
        [i8(3, 5), s(0.1), z(3, np.int8), i8(5), s(0.2), z(-9, np.int8), s(0.3), z(2, np.int8)],
        1,
        {},
    ),
    "q sigmoid": ("QLinearSigmoid", [u8(3, 5), s(0.05), z(128), s(1 / 255), z(0)], 1, {}),
    "q leaky": ("QLinearLeakyRelu", [u8(3, 5), s(0.05), z(128), s(0.06), z(120)], 1, {"alpha": 0.1}),
    "q average": ("QLinearAveragePool", [u8(1, 3, 4, 4), s(0.05), z(128), s(0.06), z(120)], 1, POOL),
    "q global": ("QLinearGlobalAveragePool", [u8(1, 3, 4, 4), s(0.05), z(128), s(0.06), z(120)], 1, {}),
    "q concat": (
        "QLinearConcat",
        [s(0.2), z(128), u8(2, 3), s(0.1), z(4), u8(2, 5), s(0.3), z(100)],
        1,
        {"axis": 1},
    ),
    "integer to float": ("MatMulIntegerToFloat", [u8(3, 6), i8(6, 5), s(0.1), f(5) ** 2, z(120)], 1, {}),
    "dynamic": ("DynamicQuantizeMatMul", [f(3, 6), i8(6, 5), s(0.02), z(0, np.int8)], 1, {}),
    "q gemm": (
        "QGemm",
        [
            u8(3, 6),
            s(0.1),
            z(120),
            i8(6, 5),
            s(0.02),
            z(0, np.int8),
            np.arange(5, dtype=np.int32),
            s(0.1),
            z(10),
        ],
        1,
        {},
    ),
    "grouped window": (
        "GroupQueryAttention",
        [f(1, 6, 32), f(1, 6, 16), f(1, 6, 16), None, None, np.array([5], np.int32), np.array(6, np.int32)],
        3,
        {**GQA, "local_window_size": 2},
    ),
    "nbits 8 zeros": ("MatMulNBits", [f(3, 72), u8(20, 3, 32), f(60), u8(60)], 1, {**NBITS, "bits": 8}),
    "nbits bias": ("MatMulNBits", [f(3, 72), u8(20, 3, 16), f(60), None, None, f(20)], 1, NBITS),
    "rotary shifted": ("RotaryEmbedding", [f(2, 5, 16), np.array([3]), f(12, 2), f(12, 2)], 1, {}),
    "skip rms bias": ("SkipSimplifiedLayerNormalization", [f(2, 5, 8), f(2, 5, 8), f(8), f(8)], 4, {}),
    "skip norm plain": ("SkipLayerNormalization", [f(2, 5, 8), f(2, 5, 8), f(8)], 1, {}),
    **{
        f"embed {name}": (
            "EmbedLayerNormalization",
            [
                ids(11, 2, 5),
                ids(2, 2, 5) if kinds else None,
                f(11, 8),
                f(9, 8),
                f(2, 8) if kinds else None,
                f(8),
                f(8),
                ids(2, 2, 5) if mask else None,
            ],
            2,
            {"epsilon": 1e-5},
        )
        for name, kinds, mask in (("all", True, True), ("words", False, False), ("kinds", True, False))
    },
    "fused batches": ("FusedMatMul", [f(5, 3, 4), f(3, 4, 6)], 1, {"transBatchA": 1}),
    **{
        f"conv {name}": (
            "FusedConv",
            [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4)],
            1,
            {"activation": name, **({"activation_params": params} if params else {})},
        )
        for name, params in (
            ("Clip", [-0.5, 0.75]),
            ("LeakyRelu", [0.3]),
            ("HardSigmoid", [0.3, 0.4]),
            ("Sigmoid", []),
            ("Tanh", []),
        )
    },
    "conv added": (
        "FusedConv",
        [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4), f(1, 4, 6, 6)],
        1,
        {"activation": "Relu"},
    ),
    "nbits groups": (
        "MatMulNBits",
        [f(3, 64), u8(20, 2, 16), f(40), None, ids(2, 64)],
        1,
        {**NBITS, "K": 64},
    ),
    "nbits 2": ("MatMulNBits", [f(3, 64), u8(20, 2, 8), f(40)], 1, {**NBITS, "K": 64, "bits": 2}),
    "inverse": ("Inverse", [f(3, 4, 4)], 1, {}),
    "expand dims": ("ExpandDims", [f(3, 4), np.array(-1, np.int32)], 1, {}),
    "expand dims 1": ("ExpandDims", [f(3, 4), np.array(1, np.int32)], 1, {}),
    "attention sizes": (
        "Attention",
        [f(2, 6, 16), f(16, 56), f(56)],
        1,
        {**HEADS, "qkv_hidden_sizes": [16, 16, 24]},
    ),
    "attention spans": (
        "Attention",
        [f(2, 6, 16), f(16, 48), f(48), np.array([6, 4, 1, 2], np.int32)],
        1,
        HEADS,
    ),
    "attention mask": ("Attention", [f(2, 6, 16), f(16, 48), f(48), choice(2, 6)], 1, HEADS),
    "attention mask of all": (
        "Attention",
        [f(2, 6, 16), f(16, 48), f(48), choice(2, 6, 6)],
        1,
        {**HEADS, "unidirectional": 1},
    ),
    "attention added": (
        "Attention",
        [f(2, 6, 16), f(16, 48), f(48), choice(2, 6), None, f(2, 4, 6, 6)],
        1,
        {**HEADS, "unidirectional": 1, "scale": 0.3},
    ),
    "heads apart": ("MultiHeadAttention", [f(2, 6, 16), f(2, 4, 7, 4), f(2, 4, 7, 4)], 1, HEADS),
    "heads past": (
        "MultiHeadAttention",
        [f(2, 3, 16), f(2, 3, 16), f(2, 3, 16), None, None, f(2, 4, 3, 8), f(2, 4, 5, 4), f(2, 4, 5, 4)],
        3,
        {**HEADS, "unidirectional": 1},
    ),
    "rotary apart": (
        "RotaryEmbedding",
        [f(2, 4, 5, 8), np.arange(10).reshape(2, 5), f(12, 4), f(12, 4)],
        1,
        {},
    ),
    "rotary part": (
        "RotaryEmbedding",
        [f(2, 5, 32), np.arange(10).reshape(2, 5), f(12, 2), f(12, 2)],
        1,
        {"rotary_embedding_dim": 4, "num_heads": 4, "interleaved": 1},
    ),
    "grouped packed": (
        "GroupQueryAttention",
        [f(1, 5, 64), None, None, None, None, np.array([4], np.int32), np.array(5, np.int32)],
        3,
        GQA,
    ),
    **{
        f"grouped rotary {way}": (
            "GroupQueryAttention",
            [
                f(1, 5, 64),
                f(1, 5, 32),
                f(1, 5, 32),
                None,
                None,
                np.array([4], np.int32),
                np.array(5, np.int32),
                f(12, 8),
                f(12, 8),
            ],
            3,
            {**GQA, "do_rotary": 1, "rotary_interleaved": way},
        )
        for way in (0, 1)
    },
    "q concat of three": (
        "QLinearConcat",
        [s(0.2), z(128), u8(2, 3), s(0.1), z(4), u8(2, 5), s(0.3), z(100), u8(2, 1), s(0.2), z(7)],
        1,
        {"axis": 1},
    ),
    "q softmax": ("QLinearSoftmax", [u8(3, 5), s(0.05), z(128), s(1 / 255), z(0)], 1, {"opset": 13}),
    "q softmax flat": (
        "QLinearSoftmax",
        [u8(3, 2, 4), s(0.05), z(128), s(1 / 255), z(0)],
        1,
        {"opset": 11, "axis": 1},
    ),
    "q softmax flat, no axis": (
        "QLinearSoftmax",
        [np.arange(24, dtype=np.uint8).reshape(3, 2, 4) * np.uint8(9), s(0.05), z(128), s(1 / 255), z(0)],
        1,
        {"opset": 11},
    ),
    "q average last": (
        "QLinearAveragePool",
        [u8(1, 4, 4, 3), s(0.05), z(128), s(0.06), z(120)],
        1,
        {**POOL, "channels_last": 1},
    ),
    "q global last": (
        "QLinearGlobalAveragePool",
        [u8(1, 4, 4, 3), s(0.05), z(128), s(0.06), z(120)],
        1,
        {"channels_last": 1},
    ),
    "q where": (
        "QLinearWhere",
        [choice(3, 5).astype(bool), u8(3, 5), s(0.1), z(120), u8(3, 5), s(0.2), z(99), s(0.3), z(128)],
        1,
        {},
    ),
    "integer to float bias": (
        "MatMulIntegerToFloat",
        [u8(3, 6), i8(6, 5), s(0.1), s(0.3), z(120), z(5, np.int8), f(5)],
        1,
        {},
    ),
    "q gemm turned": (
        "QGemm",
        [u8(6, 3), s(0.1), z(120), i8(5, 6), s(0.02), z(3, np.int8)],
        1,
        {"transA": 1, "transB": 1, "alpha": 0.7},
    ),
}


def built(name: str) -> Model:
    op, operands, count, attributes = CASES[name]
    names = [f"x{i}" if v is not None else "-" for i, v in enumerate(operands)]
    outputs = [f"y{i}" for i in range(count)]
    inputs = {n: (v.dtype, v.shape) for n, v in zip(names, operands, strict=True) if v is not None}
    one = node(op, " ".join(names), " ".join(outputs), domain="com.microsoft", **attributes)
    if count == 4:  # the two in the middle are left out
        outputs = [outputs[0], outputs[3]]
        del one.output[:]
        one.output.extend([outputs[0], "", "", outputs[1]])
    proto = model([one], inputs, outputs, opset=17, ir_version=10)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    quantised = op.startswith("Q") and op != "QuickGelu" and name != "q gemm turned"
    for o in proto.graph.output:
        o.type.tensor_type.elem_type = (3 if name == "q mul" else 2) if quantised else 1
    if op == "EmbedLayerNormalization":  # lengths
        proto.graph.output[1].type.tensor_type.elem_type = 6
    return proto, {n: v for n, v in zip(names, operands, strict=True) if v is not None}
