"""The sizes at which the package changes its mind, read from where they stand, and programs that pass them.

Enters: the sources. Leaves: `thresholds()`, for each folder the whole numbers at the top of its modules that
code compares sizes with, cuts them by or counts them in, and `PROGRAMS`, for each folder functions of one
free size. A folder that gains a threshold and has no program is reported by the test beside.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb

F = tb.nn.functional
PACKAGE = Path(tb.__file__).parent
FOLDERS = (
    "compiler/targets/cpu/nests", "compiler/targets/cpu/contraction/gemm",
    "compiler/targets/cpu/contraction/attention", "compiler/targets/cpu/contraction",
    "compiler/targets/cpu/linalg", "compiler/targets/cpu/sorting",
    "compiler/targets/cpu/passes", "compiler/graph", "compiler/program", "framework/optim",
    "framework/ops", "framework", "ir/primitives",
)  # fmt: skip
OTHERS = ("framework/checkpoint", "framework/data", "framework/logs")  # theirs are of files
LARGEST = 1 << 18  # elements: more take longer than they tell
Arrays = list[np.ndarray]


# --- what stands in the sources -------------------------------------------------------------------


def thresholds() -> dict[str, dict[str, int]]:
    """{folder: {"module.NAME": value}}; of folders within each other the nearest counts."""
    found: dict[str, dict[str, int]] = {folder: {} for folder in FOLDERS}
    for file in sorted(PACKAGE.rglob("*.py")):
        inside = file.relative_to(PACKAGE).as_posix()
        near = [folder for folder in FOLDERS if inside.startswith(folder + "/")]
        if near and not inside.startswith(OTHERS):
            for name, value in sizes_in(ast.parse(file.read_text(encoding="utf-8"))):
                found[max(near, key=len)][f"{file.stem}.{name}"] = value
    return found


def sizes_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Whole numbers with a name in capitals that a function of the module decides or divides by."""
    named = dict(_named(tree))
    deciding = {
        part.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.BinOp) or _chooses(node)
        for part in ast.walk(node)
        if isinstance(part, ast.Name)
    }
    for name, value in named.items():
        if name in deciding and 2 <= value <= 4 * LARGEST:
            yield name, value


def _named(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        names, values = _pairs(node.targets[0]), _pairs(node.value)
        for name, value in zip(names, values, strict=False):
            number = _number(value)
            if isinstance(name, ast.Name) and name.id.isupper() and number is not None:
                yield name.id, number


def _pairs(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _chooses(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"min", "max", "range"}
    )


def _number(node: ast.expr) -> int | None:
    """The value of a written number, of sums, products and shifts of such."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp):
        a, b = _number(node.left), _number(node.right)
        meaning = {
            ast.LShift: int.__lshift__,
            ast.Mult: int.__mul__,
            ast.Add: int.__add__,
            ast.Sub: int.__sub__,
        }
        if a is not None and b is not None and type(node.op) in meaning:
            return meaning[type(node.op)](a, b)
    return None


# --- programs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A function of arrays whose sizes follow from one."""

    name: str
    inputs: Callable[[np.random.Generator, int], Arrays]
    function: Callable[..., Any]
    most: int  # of the size: beyond it the case is left out
    gradient: bool = True
    exact: bool = False
    least: int = 1

    def __repr__(self) -> str:
        return self.name


def normal(*shapes: str) -> Callable[[np.random.Generator, int], Arrays]:
    """Standard normal arrays; a shape is written as "3 n", where n is the size."""
    return lambda rng, n: [rng.standard_normal(_shape(shape, n)) for shape in shapes]


def whole(
    low: int, high: int, *shapes: str, dtype: Any = np.int32
) -> Callable[[np.random.Generator, int], Arrays]:
    return lambda rng, n: [rng.integers(low, high, _shape(shape, n)).astype(dtype) for shape in shapes]


def _shape(text: str, n: int) -> tuple[int, ...]:
    sizes = {"n": n, "half": n // 2 + 1}
    return tuple(sizes[part] if part in sizes else int(part) for part in text.split())


def _softmax(x: Any) -> Any:
    e = tb.exp(x - tb.max(x, axis=-1, keepdims=True))
    return e / tb.sum(e, axis=-1, keepdims=True)


def _padded_columns(x: Any) -> Any:
    return tb.sum(F.pad(x, (1, 2), value=0.5) * 2, axis=0)


def _spread(x: Any, y: Any) -> Any:
    rows = tb.arange(x.shape[0], dtype=tb.int64) * 7 % 5
    return tb.zeros((5, *x.shape[1:]), dtype=x.dtype).index_add(0, rows, x) * y


def _steady(n: int) -> Callable[[np.random.Generator, int], Arrays]:
    """A well-conditioned square matrix and a right-hand side."""
    return lambda rng, m: [rng.standard_normal((m, m)) + 3 * m**0.5 * np.eye(m), rng.standard_normal((m, n))]


ELEMENTWISE = (
    Program("chain", normal("n", "n"), lambda x, y: tb.exp(-tb.abs(x)) * y + x, LARGEST),
    Program(
        "chain of rows",
        normal("3 n", "n"),
        lambda x, y: tb.sin(x) * y - x,
        LARGEST // 3,
    ),
)
NESTS = (
    *ELEMENTWISE,
    Program("sum of a row", normal("n"), lambda x: tb.sum(x * x), LARGEST),
    Program("softmax of rows", normal("5 n"), _softmax, LARGEST // 8),
    Program("softmax of many rows", normal("n 5"), _softmax, LARGEST // 8),
    Program("column sums, wide", normal("19 n"), _padded_columns, LARGEST // 32),
    Program("column sums, long", normal("n 7"), lambda x: tb.sum(tb.tanh(x), axis=0), LARGEST // 8),
    Program("turned", normal("n 9", "9 n"), lambda x, y: x.T * 2 + y, LARGEST // 16),
    Program("turned square", normal("n n"), lambda x: tb.exp(x.T) + x, 300),
    Program("joined", normal("n", "half"), lambda x, y: tb.concat([x, y * 2, x]) + 1, LARGEST),
    Program("joined columns", normal("6 n", "6 3"), lambda x, y: tb.concat([y, x, y], axis=1), LARGEST // 8),
    Program("running sum", normal("2 n"), lambda x: tb.cumulative_sum(x, axis=1), LARGEST // 4),
    Program("running sum down", normal("n 3"), lambda x: tb.cumulative_sum(x, axis=0), LARGEST // 4),
    Program("scattered", normal("11 n", "n"), _spread, LARGEST // 16),
    Program("scattered rows", normal("n 3", "3"), _spread, LARGEST // 16),
    Program("largest", normal("3 n"), lambda x: tb.argmax(x, axis=1), LARGEST // 4,
            gradient=False, exact=True),
    Program("bits", whole(-100, 100, "n", "n"), lambda x, y: (x ^ y) * 3 + (x >> 1), LARGEST,
            gradient=False, exact=True),
)  # fmt: skip
PRODUCTS = (
    Program("product, rows", normal("n 13", "13 9"), lambda x, w: tb.tanh(x @ w), 4200),
    Program("product, depth", normal("5 n", "n 11"), lambda x, w: x @ w + 1, 4200),
    Program("product, columns", normal("7 10", "10 n"), lambda x, w: F.relu(x @ w), 4200),
    Program("product, square", normal("n n", "n n"), lambda x, w: x @ w, 300),
    Program("turned product", normal("12 n", "17 12"), lambda x, w: x.T @ w.T, 4200),
    Program("matrix and vector", normal("n 33", "33"), lambda x, w: x @ w, 9000),
    Program("vector and matrix", normal("37", "37 n"), lambda x, w: x @ w, 9000),
    Program("long vectors", normal("3 n", "n"), lambda x, w: x @ w, 66000),
    Program("batched", normal("3 4 n", "3 n 5"), lambda x, w: x @ w, 2100),
    Program("integers", whole(-9, 9, "6 n", "n 5"), lambda x, w: x @ w, 4200,
            gradient=False, exact=True),
    Program("product of bytes", whole(-128, 128, "4 n", "n 9", dtype=np.int8),
            lambda x, w: tb.matmul(x.astype(tb.int32), w.astype(tb.int32)), 4200, gradient=False, exact=True),
)  # fmt: skip


def _conv(**options: Any) -> Callable[..., Any]:
    return lambda x, w: F.relu(F.conv2d(x, w, groups=x.shape[1] // w.shape[1], **options))


CONVOLUTIONS = (
    Program("3x3, wide picture", normal("1 3 4 n", "5 3 3 3"), _conv(padding=1), 800),
    Program("3x3, many channels", normal("1 n 6 7", "9 n 3 3"), _conv(padding=1), 520),
    Program("3x3, many filters", normal("1 5 7 6", "n 5 3 3"), _conv(), 520),
    Program("1x1", normal("2 n 5 5", "11 n 1 1"), _conv(), 520),
    Program("1x1 of pixels", normal("1 17 1 n", "18 17 1 1"), _conv(), 800),
    Program("strides", normal("1 4 9 n", "6 4 5 3"), _conv(stride=2, padding=2), 800),
    Program("each channel", normal("1 n 8 9", "n 1 3 3"), _conv(padding=1), 520),
    Program("each channel, wide", normal("2 6 5 n", "6 1 3 3"), _conv(padding=1), 800),
    Program("squares of pixels", normal("1 16 n n", "16 16 3 3"), _conv(padding=1), 70),
    Program("windows of bytes", whole(0, 200, "1 n 5 8", "7 n 3 3"),
            lambda x, w: F.conv2d(x, w - 100, padding=1), 520, gradient=False, exact=True),
    Program("largest of windows", normal("1 3 8 n"), lambda x: F.max_pool2d(x, 3, 2), 800, least=3),
    Program("mean of windows", normal("1 n 8 6"), lambda x: F.avg_pool2d(x, 3, 1, padding=1), 800),
)  # fmt: skip


def _attention(**options: Any) -> Callable[..., Any]:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


ATTENTIONS = (
    Program("queries", normal("1 2 n 8", "1 2 7 8", "1 2 7 8"), _attention(), 520),
    Program("keys", normal("2 1 9 8", "2 1 n 8", "2 1 n 8"), _attention(), 520),
    Program("channels", normal("1 1 9 n", "1 1 11 n", "1 1 11 n"), _attention(), 260),
    Program("causal", normal("1 2 n 16", "1 2 n 16", "1 2 n 16"), _attention(is_causal=True), 260),
)  # fmt: skip
SOLUTIONS = (
    Program("solve", _steady(3), lambda a, b: tb.linalg.solve(a, b), 140),
    Program("one right-hand side", _steady(1), lambda a, b: tb.linalg.solve(a, b[:, 0]), 140),
    Program("triangular", _steady(5), lambda a, b: tb.linalg.solve_triangular(a, b, upper=True), 140),
    Program("cholesky", _steady(1), lambda a, b: tb.linalg.cholesky(a @ a.T) @ b, 140),
    Program("determinant", _steady(1), lambda a, b: tb.linalg.slogdet(a)[1] * b, 140),
    Program(
        "many small",
        normal("n 3 3"),
        lambda a: tb.linalg.inv(a + 9 * tb.eye(3, dtype=a.dtype)),
        5000,
    ),
)
ORDERS = (
    Program("sorted", normal("2 n"), lambda x: tb.sort(x, axis=-1), 70000, exact=True),
    Program("sorted columns", normal("n 3"), lambda x: tb.sort(x, axis=0), 5000, exact=True),
    Program("order", normal("n"), lambda x: tb.argsort(x), 70000, gradient=False, exact=True),
    Program("order of equal ones", whole(0, 9, "3 n"), lambda x: tb.argsort(x, axis=1, stable=True), 20000,
            gradient=False, exact=True),
    Program("sorted bytes", whole(-128, 128, "3 n", dtype=np.int8), lambda x: tb.sort(x, axis=1), 70000,
            gradient=False, exact=True),
    Program("the first of the order", normal("3 n"), lambda x: tb.topk(x, 5)[0], 20000,
            exact=True, least=5),
)  # fmt: skip


def _stepped(x: Any, g: Any) -> Any:
    parameter = tb.nn.Parameter(x.clone())
    optimiser = tb.optim.AdamW([parameter], lr=0.1, weight_decay=0.01)
    for _ in range(2):
        parameter.grad = g
        optimiser.step()
    return parameter.detach()


STEPS = (Program("two steps of AdamW", normal("n", "n"), _stepped, LARGEST, gradient=False),)
SPECIAL = (
    Program(
        "error function",
        normal("n"),
        lambda x: tb.special.erf(x) + tb.special.erfc(x) * x,
        LARGEST,
    ),
    Program("chosen", normal("n", "n"), lambda x, y: tb.where(x > y, x * 2, y), LARGEST),
)
PROGRAMS: dict[str, tuple[Program, ...]] = {
    "compiler/targets/cpu/nests": NESTS,
    "compiler/targets/cpu/contraction/gemm": PRODUCTS,
    "compiler/targets/cpu/contraction/attention": ATTENTIONS,
    "compiler/targets/cpu/contraction": (*CONVOLUTIONS, *PRODUCTS, *ATTENTIONS),
    "compiler/targets/cpu/linalg": SOLUTIONS,
    "compiler/targets/cpu/sorting": ORDERS,
    "compiler/targets/cpu/passes": (*NESTS, *PRODUCTS, *CONVOLUTIONS),
    "compiler/graph": (*NESTS, *PRODUCTS, *CONVOLUTIONS[:4]),
    "compiler/program": NESTS[:6],
    "framework/optim": STEPS,
    "framework/ops": (*ELEMENTWISE, *SOLUTIONS),
    "framework": (*ELEMENTWISE, *PRODUCTS[:4], *ATTENTIONS),
    "ir/primitives": (*SPECIAL, *PRODUCTS[:4], *CONVOLUTIONS, *SOLUTIONS),
}


@dataclass(frozen=True)
class Case:
    program: Program
    size: int
    threshold: str

    def __repr__(self) -> str:
        return f"{self.threshold}, {self.program.name} of {self.size}".replace(" ", "_")


def cases(multiples: Sequence[int] = (1, 2)) -> list[Case]:
    """Each program of a folder with sizes on both sides of each of its thresholds, and of so many times it;
    sizes of one program stand together.

    A number may count bytes: a quarter of it is then as many elements of four.
    """
    found: dict[tuple[str, int], Case] = {}
    for folder, names in thresholds().items():
        for name, value in names.items():
            for program in PROGRAMS[folder]:
                for size in _around(value, multiples):
                    if program.least <= size <= program.most:
                        found.setdefault((program.name, size), Case(program, size, name))
    return sorted(found.values(), key=lambda case: (case.program.name, case.size))


def _around(value: int, multiples: Sequence[int]) -> list[int]:
    centres = [value * n for n in multiples] + ([value // 4] if value >= 4096 else [])
    return sorted({size for centre in centres for size in (centre - 1, centre, centre + 1)})
