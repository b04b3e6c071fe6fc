"""Models of one operator of com.microsoft each: attention over caches, experts, weights of few bits, and
small operators, with random operands. A case says which types its results have; 0 leaves a result out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.inference.cases_microsoft import choice, f, i8, ids, rng, s, u8, z
from tests.inference.conftest import Model

Operands = list[np.ndarray[Any, Any] | None]
Case = tuple[str, Operands, list[int], dict[str, Any]]
F32, U8, I32, I64, U32 = 1, 2, 6, 7, 12
HEADS = {"num_heads": 4}
GQA = {"num_heads": 4, "kv_num_heads": 2}
TURNED = {**GQA, "do_rotary": 1}


def i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def grouped(
    new: int, past: int = 0, total: int = 0, lengths: Any = None, size: int = 8, batch: int = 1
) -> Operands:
    """Queries of 4 heads, keys and values of 2, a cache if there is a past, lengths."""
    total = total or new
    ends = [total - 1] * batch if lengths is None else lengths
    cache: Operands = [f(batch, 2, past, size) if past else None for _ in "kv"]
    q, k, v = f(batch, new, 4 * size), f(batch, new, 2 * size), f(batch, new, 2 * size)
    return [q, k, v, *cache, i32(*ends), np.array(total, np.int32)]


def angles(size: int = 8) -> Operands:
    return [f(12, size), f(12, size)]


def one_token(batch: int = 2, size: int = 4) -> Operands:
    return [f(batch, 1, 4 * size) for _ in "qkv"]


NONE: Operands = [None]
ATTENTION: dict[str, Case] = {
    **{
        f"grouped {name}": ("GroupQueryAttention", operands, [1, 1, 1], {**GQA, **attributes})
        for name, operands, attributes in (
            ("bent scores", grouped(5), {"softcap": 1.5}),
            ("bent scores of one token", grouped(1, 5, 6), {"softcap": 1.5}),
            ("smooth softmax", grouped(5), {"smooth_softmax": 1}),
            ("sink", [*grouped(5), *NONE * 4, f(4)], {}),
            ("sink and bent scores", [*grouped(5), *NONE * 4, f(4)], {"softcap": 1.1}),
            ("all keys", grouped(5), {"causal": 0}),
            ("window", grouped(7), {"local_window_size": 3}),
            ("window of one token", grouped(1, 7, 8), {"local_window_size": 3}),
            ("bias", [*grouped(5, batch=2), *NONE * 3, f(1, 1, 5, 5)], {}),
            ("roomy cache and bias", [*grouped(1, 6, 6), *NONE * 3, f(1, 1, 1, 6)], {}),
            ("several new tokens", grouped(3, 5, 8), {}),
        )
    },
    **{
        f"grouped turned {name}": ("GroupQueryAttention", operands, [1, 1, 1], TURNED)
        for name, operands in (
            ("by positions", [*grouped(5, size=16), *angles(), np.array([[3, 1, 2, 0, 7]])]),
            ("by one position", [*grouped(1, 5, 6, size=16), *angles(), np.array([[2]])]),
            ("several new tokens", [*grouped(3, 5, 8, size=16), *angles()]),
        )
    },
    **{
        f"grouped scores {kind} {name}": (
            "GroupQueryAttention", operands, [1, 1, 1, 1], {**GQA, "qk_output": kind, **attributes},
        )
        for kind in (1, 2)
        for name, operands, attributes in (
            ("of a prompt", grouped(5), {}),
            ("of a token, bent", grouped(1, 5, 6), {"softcap": 2.0}),
            ("with a sink", [*grouped(5), *NONE * 4, f(4)], {}),
            ("with a bias", [*grouped(5), *NONE * 3, f(1, 4, 5, 5)], {}),
        )
    },
    **{
        f"attention that sees nothing {name}": (
            "Attention", [f(2, 6, 16), f(16, 48), f(48), np.array([[0] * 6, [1, 1, 0, 1, -1, 2]], np.int32)],
            [1], {**HEADS, **attributes},
        )
        for name, attributes in (
            ("", {}), ("causal", {"unidirectional": 1}), ("by another number", {"mask_filter_value": -2.0}),
        )
    },
    "attention past mask": (
        "Attention", [f(2, 3, 16), f(16, 48), f(48), choice(2, 8), f(2, 2, 4, 5, 4)], [1, 1],
        {**HEADS, "unidirectional": 1},
    ),
    **{
        f"q attention {name}": ("QAttention", operands, outs, {**HEADS, **attributes})
        for name, operands, outs, attributes in (
            ("", [u8(2, 6, 16), i8(16, 48), f(48), s(0.002), s(0.03)], [1], {}),
            ("per column", [u8(2, 6, 16), i8(16, 48), f(48), s(0.002), f(48) ** 2, None, z(120), i8(48)],
             [1], {}),
            ("lengths", [u8(2, 6, 16), u8(16, 48), f(48), s(0.002), s(0.003), i32(6, 3), z(120), z(130)],
             [1], {}),
            ("past", [u8(2, 3, 16), u8(16, 48), f(48), s(0.002), s(0.003), choice(2, 8), z(120), z(130),
                      f(2, 2, 4, 5, 4)], [1, 1], {"unidirectional": 1, "scale": 0.4}),
        )
    },
    **{
        f"heads {name}": ("MultiHeadAttention", operands, outs, {**HEADS, **attributes})
        for name, operands, outs, attributes in (
            ("scores", [f(2, 6, 16), f(2, 7, 16), f(2, 7, 16), f(48), choice(2, 7)], [1, 1, 1, 1], {}),
            ("bias beside a cache", [f(2, 6, 16), f(2, 4, 7, 4), f(2, 4, 7, 4), f(48)], [1], {}),
            ("mask of all", [f(2, 6, 16), f(2, 7, 16), f(2, 7, 16), None, choice(2, 6, 7)], [1], {}),
            ("lengths", [f(2, 6, 16), f(2, 7, 16), f(2, 7, 16), None, i32(7, 3)], [1], {}),
            ("wide values", [f(2, 6, 16), f(2, 7, 16), f(2, 7, 24), f(56)], [1], {}),
            ("that see nothing", [f(2, 6, 16), f(2, 6, 16), f(2, 6, 16), None,
                                  np.array([[0] * 6, [1, 0, 1, 0, 1, 1]], np.int32)],
             [1], {"unidirectional": 1}),
        )
    },
    **{
        f"decoder {name}": ("DecoderMaskedMultiHeadAttention", operands, outs, {**HEADS, **attributes})
        for name, operands, outs, attributes in (
            ("into a buffer", [*one_token(), *NONE * 2, f(2, 4, 6, 4), f(2, 4, 6, 4), i32(5)], [1, 1, 1],
             {"past_present_share_buffer": 1}),
            ("over other keys", [f(2, 1, 16), f(2, 4, 7, 4), f(2, 4, 7, 4), choice(2, 7)], [1], {}),
            ("bias over other keys", [f(2, 1, 16), f(2, 4, 7, 4), f(2, 4, 7, 4), *NONE * 7, f(48)], [1], {}),
            ("scores", [f(2, 1, 16), f(2, 4, 7, 4), f(2, 4, 7, 4)], [1, 0, 0, 1], {"output_qk": 1}),
            ("of beams", [*one_token(4), *NONE * 2, f(4, 4, 6, 4), f(4, 4, 6, 4), i32(5), i32(2),
                          ids(2, 2, 2, 6)], [1, 1, 1], {"past_present_share_buffer": 1}),
        )
    },
    **{
        f"linear attention {rule} {q} of {k}": (
            "LinearAttention",
            [f(2, 5, q * 4), f(2, 5, k * 4) / 3, f(2, 5, k * 3), f(2, k, 4, 3),
             -np.abs(f(2, 5, k)) if "gated" in rule else None,
             np.abs(f(2, 5, k)) / 3 if "delta" in rule else None],
            [1, 1], {"q_num_heads": q, "kv_num_heads": k, "update_rule": rule},
        )
        for rule, q, k in (("linear", 4, 2), ("gated", 2, 4), ("delta", 2, 2), ("gated_delta", 2, 4))
    },
    "linear attention gate": ("LinearAttentionGate", [f(2, 5, 4), f(4), f(4), f(2, 5, 4)], [1, 1], {}),
    **{
        f"causal convolution {last} {dilation}": (
            "CausalConvWithState",
            [f(2, 5, 2, 3) if last else f(2, 6, 5), f(6, 1, 3), f(6),
             f(2, 2 * dilation, 2, 3) if last else f(2, 6, 2 * dilation)],
            [1, 1],
            {"channels_last": last, "dilation": dilation, "activation": ("silu", "none")[last]},
        )
        for last in (0, 1) for dilation in (1, 2)
    },
    "turned by three": (
        "MRotaryEmbedding", [f(2, 2, 5, 16), ids(12, 3, 2, 5), *angles()], [1], {"mrope_section": [3, 3, 2]},
    ),
    "turned by three in turns": (
        "MRotaryEmbedding", [f(2, 2, 5, 16), ids(12, 3, 2, 5), *angles()], [1],
        {"mrope_section": [4, 2, 2], "mrope_layout": 1, "interleaved": 1},
    ),
    "turned by three in part": (
        "MRotaryEmbedding", [f(2, 5, 32), ids(12, 3, 2, 5), *angles(4)], [1],
        {"mrope_section": [2, 1, 1], "num_heads": 2, "rotary_embedding_dim": 8},
    ),
}  # fmt: skip
for case in ("turned by three", "turned by three in turns", "turned by three in part"):
    ATTENTION[case][1][1] = ATTENTION[case][1][1].astype(np.int64)  # type: ignore[union-attr]

SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}


def experts(bits: int, blocks: int) -> Operands:
    """A row of each kind of operand of QMoE with 4 experts of 32 features."""
    shape = (blocks,) if blocks else ()
    width = 32 * bits // 8
    return [f(5, 32), f(5, 4), u8(4, 64, width), f(4, 64, *shape), f(4, 64),
            u8(4, 32, width), f(4, 32, *shape), f(4, 32)]  # fmt: skip


def points(bits: int, blocks: int) -> Operands:
    if blocks:
        return [u8(4, 64, -(-blocks * bits // 8)), u8(4, 32, -(-blocks * bits // 8))]
    return [u8(4, 64 * bits // 8), u8(4, 32 * bits // 8)]


OTHERS: dict[str, Case] = {
    **{
        f"fused gemm {name}": (
            "FusedGemm", [f(5, 6), f(6, 7), f(7)], [1],
            {"activation": name, "activation_alpha": 0.3, "activation_beta": 0.2, "activation_gamma": 1.1},
        )
        for name in "HardSigmoid Elu Selu Softplus Softsign ThresholdedRelu".split()
    },
    "q conv channels last": (
        "QLinearConv",
        [u8(1, 7, 6, 4), s(0.02), z(120), i8(5, 4, 3, 3), f(5) ** 2, np.zeros(5, np.int8), s(0.4), z(99),
         rng.integers(-900, 900, 5).astype(np.int32)],
        [2], {"channels_last": 1, "pads": [1, 1, 1, 1], "strides": [2, 1]},
    ),
    "max pool channels last": (
        "NhwcMaxPool", [u8(1, 7, 6, 4)], [2],
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "ceil_mode": 1},
    ),
    "conv transpose with pads": (
        "ConvTransposeWithDynamicPads", [f(1, 3, 5, 5), f(3, 4, 3, 3), np.array([1, 0, 1, 2]), f(4)], [1],
        {"strides": [2, 2]},
    ),
    **{
        f"four bits by table {kind}": (
            "MatMulBnb4", [f(3, 40), u8(240), f(30) ** 2], [1],
            {"K": 40, "N": 12, "block_size": 16, "quant_type": kind},
        )
        for kind in (0, 1)
    },
    **{
        f"gather {bits} bits {'points' if points_ is not None else ''}": (
            "GatherBlockQuantized",
            [u8(9, 8 * bits), np.array([[3, 1, -2], [8, 0, 4]]), f(9, 4), points_], [1],
            {"block_size": 16, "bits": bits},
        )
        for bits in (2, 4, 8) for points_ in (None, u8(9, 4 * bits // 8))
    },
    "gather 4 bits to an odd end": (
        "GatherBlockQuantized", [u8(9, 20), np.array([[3, 11, -12], [8, 0, 4]]), f(9, 3), u8(9, 2)], [1],
        {"block_size": 16},
    ),
    **{
        f"experts {name} {k} {share}": (
            "MoE", [f(5, 8), f(5, 4), f(4, 12, 8), f(4, 12), f(4, 8, 12), f(4, 8)], [1],
            {"k": k, "activation_type": name, "normalize_routing_weights": share},
        )
        for name, k, share in (("relu", 1, 0), ("gelu", 2, 1), ("silu", 2, 0), ("identity", 1, 1))
    },
    "experts swiglu": (
        "MoE", [f(2, 3, 8), f(6, 4), f(4, 24, 8), f(4, 24), f(4, 8, 12), f(4, 8)], [1],
        {**SWIGLU, "k": 2, "swiglu_limit": 0.7},
    ),
    **{
        f"experts of {bits} bits {blocks} blocks {'points' if zeros else ''}": (
            "QMoE", [*experts(bits, blocks), *([*NONE * 3, *points(bits, blocks)] if zeros else [])], [1],
            {**SWIGLU, "k": 2, "expert_weight_bits": bits, "normalize_routing_weights": 1,
             **({"block_size": 16} if blocks else {})},
        )
        for bits in (2, 4) for blocks in (0, 2) for zeros in (False, True)
    },
    "experts of 4 bits mixed by others": (
        "QMoE", [*experts(4, 2), *NONE * 6, f(5, 4) ** 2], [1], {**SWIGLU, "k": 2, "block_size": 16},
    ),
    "repeated words": (
        "NGramRepeatBlock", [np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]), f(2, 6)], [1], {"ngram_size": 3},
    ),
    "range": ("Range", [s(1), s(7)], [1], {}),
    "range in steps": ("Range", [z(1, np.int32), z(9, np.int32), z(3, np.int32)], [6], {}),
    "gather nd": ("GatherND", [f(4, 5, 6), np.array([[1, 2], [3, 4]])], [1], {}),
    "distances": ("CDist", [f(5, 7), f(4, 7)], [1], {}),
    "euclidean distances": ("CDist", [f(5, 7), f(4, 7)], [1], {"metric": "euclidean"}),
    "windows": ("UnfoldTensor", [f(3, 10, 4)], [1], {"dim": 1, "size": 4, "step": 3}),
    "windows of the last axis": ("UnfoldTensor", [f(3, 10)], [1], {"size": 4}),
    "product of 16 bits": (
        "MatMulInteger16", [rng.integers(-3000, 3000, n).astype(np.int16) for n in ((3, 5), (5, 4))], [6], {},
    ),
    "hash": ("MurmurHash3", [ids(900, 5)], [12], {}),
    "hash of 8 bytes": ("MurmurHash3", [ids(900, 5).astype(np.int64)], [6], {"positive": 0, "seed": 7}),
    "hash of strings": (
        "MurmurHash3", [np.array(["abc", "", "hello", "äß"], dtype=object)], [12], {"seed": 42},
    ),
    "time warping": ("DynamicTimeWarping", [f(6, 9)], [6], {}),
    "time warping upright": ("DynamicTimeWarping", [f(1, 6, 4)], [6], {}),
    "gated norm": ("GatedRMSNorm", [f(2, 3, 12), f(4), f(2, 3, 12)], [1], {}),
    "gated norm sigmoid": ("GatedRMSNorm", [f(2, 3, 6), f(6), f(2, 3, 6)], [1], {"activation": "sigmoid"}),
    "branches": ("BranchwiseRMSNorm", [f(2, 3, 4, 6), f(6)], [1], {}),
    "branches side by side": ("BranchwiseRMSNorm", [f(2, 3, 24), f(24)], [1], {"num_branches": 4}),
    "gated sum": ("GatedAdd", [f(2, 3, 6), f(2, 3, 6), f(2, 3, 1)], [1], {}),
    "scaled silu": ("ScaledSiLU", [f(2, 3, 6)], [1], {"alpha": 0.7}),
    "q embeddings": (
        "QEmbedLayerNormalization",
        [ids(9, 2, 5), ids(2, 2, 5), u8(9, 8), u8(7, 8), u8(2, 8), u8(8), u8(8), choice(2, 5),
         *map(s, (0.01, 0.02, 0.03, 0.01, 0.02)), *map(z, (120, 130, 128, 127, 1))],
        [1, 6], {"epsilon": 1e-5},
    ),
    "one row of a table": (
        "GatherBlockQuantized", [u8(9, 20), np.array(-2), f(9, 3), u8(9, 2)], [1], {"block_size": 16},
    ),
    "first of each": ("Unique", [np.round(f(12) * 2)], [1, 7, 7], {}),
    "a vector has nothing to transpose": ("FusedMatMul", [f(4), f(5, 4)], [1], {"transA": 1, "transB": 1}),
    "two vectors": ("FusedMatMul", [f(4), f(4)], [1], {"transA": 1, "transB": 1, "alpha": 0.3}),
    "turned in packed rows": (
        "RotaryEmbedding", [f(1, 5, 32), ids(12, 1, 5).astype(np.int64), f(12, 8), f(12, 8)], [1],
        {"is_packed_batching": 1},
    ),
    "heads scores that are not seen": (
        "MultiHeadAttention", [f(2, 5, 16), f(2, 5, 16), f(2, 5, 16)], [1, 1, 1, 1],
        {**HEADS, "unidirectional": 1},
    ),
    "integers to halves": (
        "MatMulIntegerToFloat", [u8(3, 6), i8(6, 5), *(v.astype(np.float16) for v in (s(0.1), f(5)))], [10],
        {},
    ),
}  # fmt: skip
TEXTS = np.array(["Hello World", "I love computer science !", "", "a", "über straße"], dtype=object)
WORDS: dict[str, Case] = {
    f"words {name} {mark}{least}": (
        "Tokenizer", [TEXTS if mark else TEXTS[:4].reshape(2, 2)], [8],
        {**how, "mark": mark, "mincharnum": least, "pad_value": "#"},
    )
    for name, how, least in (
        ("between spaces", {"separators": [" "]}, 2),
        ("between patterns", {"separators": ["[aeiou]", "l"]}, 1),
        ("by a pattern", {"tokenexp": "[a-zA-Z]{2,4}"}, 1),
        ("of one character", {"separators": [""]}, 1),
        ("of any character", {"tokenexp": "."}, 1),
        ("by the longest match", {"tokenexp": "l|ll|[a-h]+"}, 1),
        ("of which none is long enough", {"separators": ["[^0-9]+"]}, 1),
    )
    for mark in (0, 1)
}  # fmt: skip
CASES = {**ATTENTION, **OTHERS, **WORDS}


def built(name: str) -> Model:
    return one_node(*CASES[name])


def one_node(op: str, operands: Operands, outs: list[int], attributes: dict[str, Any]) -> Model:
    """A model of one node whose operands are its inputs."""
    h = onnx.helper
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(operands)]
    outputs = [f"y{i}" if t else "" for i, t in enumerate(outs)]
    there = [(n, v) for n, v in zip(names, operands, strict=True) if v is not None]
    graph = h.make_graph(
        [h.make_node(op, names, outputs, domain="com.microsoft", **attributes)],
        "network",
        [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in there],
        [h.make_tensor_value_info(n, t, None) for n, t in zip(outputs, outs, strict=True) if t],
    )
    sets = [h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)]
    return h.make_model(graph, opset_imports=sets, ir_version=10), dict(there)
