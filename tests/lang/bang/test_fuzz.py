"""Malformed sources: whatever is done to a text, there comes a program, or an error of the house with a place."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bang_harness import KERNELS, needs_clang

from trilobite.base.errors import TrilobiteError
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
MACHINE = load_machine("mlu370-x4")
CORPUS = Path(__file__).parent / "corpus"
SOURCES = [
    KERNELS / "power_difference.mlu",
    KERNELS / "clusters.mlu",
    KERNELS / "selection.mlu",
    CORPUS / "lessons.mlu",
    CORPUS / "optimisers.mlu",
]
TOKEN = re.compile(r"\w+|[^\w\s]")
PIECES = ["", "<<<", ">>>", "__nram__ ", "}", "{", "(", ")", '"', "'", ";", '#include "x"\n', "0.5h ", "\x00", "template <", "é",
          "__mlu_global__ ", "__mlu_func__", "/*", "#if 1\n", "#define float half\n", "goto ", "\\", "R\"(", "taskId=1;"]  # fmt: skip
TYPES = ["float", "half", "int", "void", "char", "double", "bfloat16_t", "int64_t", "auto"]
Mutation = Callable[[str, random.Random], str]


def _somewhere(text: str, chance: random.Random) -> re.Match[str]:
    return chance.choice(list(TOKEN.finditer(text)))


def without_a_token(text: str, chance: random.Random) -> str:
    found = _somewhere(text, chance)
    return text[: found.start()] + text[found.end() :]


def twice_a_token(text: str, chance: random.Random) -> str:
    found = _somewhere(text, chance)
    return text[: found.end()] + " " + found[0] + text[found.end() :]


def swapped_tokens(text: str, chance: random.Random) -> str:
    one, two = sorted((_somewhere(text, chance), _somewhere(text, chance)), key=lambda m: m.start())
    if one.end() > two.start():
        return text
    return text[: one.start()] + two[0] + text[one.end() : two.start()] + one[0] + text[two.end() :]


def another_type(text: str, chance: random.Random) -> str:
    places = list(re.finditer(r"\b(?:float|half|int|void|char|size_t|int32_t)\b", text))
    if not places:  # another mutation has cut them off
        return text
    found = chance.choice(places)
    return text[: found.start()] + chance.choice(TYPES) + text[found.end() :]


def cut_off(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text))]


def foreign_piece(text: str, chance: random.Random) -> str:
    at, size = chance.randrange(len(text)), chance.choice([0, chance.randrange(1, 40)])
    return text[:at] + chance.choice(PIECES) + text[at + size :]


def without_a_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    del lines[chance.randrange(len(lines))]
    return "\n".join(lines)


def larger_number(text: str, chance: random.Random) -> str:
    places = list(re.finditer(r"\b\d+\b", text))
    if not places:  # another mutation has cut them off
        return text
    found = chance.choice(places)
    number = chance.choice(["0", "-1", "4294967296", "99999999", "0x7fffffff", "1e30", "3.5"])
    return text[: found.start()] + number + text[found.end() :]


MUTATIONS: list[Mutation] = [
    without_a_token, twice_a_token, swapped_tokens, another_type, cut_off, foreign_piece, without_a_line,
    larger_number,
]  # fmt: skip


def survives(text: str, folder: Path, level: int = 2) -> None:
    path = folder / "broken.mlu"
    path.write_text(text, encoding="utf-8")
    try:
        compile_file(path, MACHINE, Options(level=level))
    except TrilobiteError as error:
        assert "broken.mlu" in str(error), str(error)


def mutated(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    text = chance.choice(SOURCES).read_text("utf-8")
    for _ in range(chance.randrange(1, 4)):
        text = chance.choice(MUTATIONS)(text or "int x;", chance) or "int x;"
    survives(text, folder, level=chance.choice([0, 2]))


@pytest.mark.parametrize("seed", range(24))
def test_mutated_sources(seed: int, tmp_path: Path) -> None:
    mutated(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("decade", range(1, 31))
def test_many_mutated_sources(decade: int, tmp_path: Path) -> None:
    for seed in range(10 * decade + 100, 10 * decade + 110):
        mutated(seed, tmp_path)


HEAD = "#include <bang.h>\n"
HOSTILE = {
    "nothing": "",
    "only a brace": "}",
    "only an entry's head": HEAD + "__mlu_global__ void k(int *x) {",
    "braces without end": HEAD + "__mlu_global__ void k(int *x) " + "{" * 400,
    "deep expressions": HEAD + "__mlu_global__ void k(int *x) { x[0] = " + "(" * 240 + "1" + ")" * 240 + "; }",
    "deep blocks": HEAD + "__mlu_global__ void k(int *x, int n) { " + "if (n) { " * 200 + "x[0] = 1;" + "}" * 201,
    "a huge array": HEAD + "__mlu_global__ void k(int *x) { __nram__ char a[1ul << 40]; a[x[0]] = 1; x[1] = a[x[2]]; }",
    "a huge local": HEAD + "__mlu_global__ void k(int *x) { volatile char a[1 << 26]; a[x[0]] = 1; x[1] = a[x[2]]; }",
    "recursion": HEAD + "__mlu_device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
    "__mlu_global__ void k(int *x) { x[0] = f(x[1]); }",
    "recursion by turns": HEAD + "__mlu_device__ int g(int n);\n"
    "__attribute__((noinline)) int f(int n) { return n ? g(n - 1) : 1; }\n"
    "__attribute__((noinline)) int g(int n) { return n ? f(n / 2) + 1 : 0; }\n"
    "__mlu_global__ void k(int *x) { x[0] = f(x[1]); }",
    "a header of its own": '#include "broken.mlu"\n' + HEAD + "__mlu_global__ void k(int *x) { x[0] = 1; }",
    "no header": "__mlu_global__ void k(float *x) { __bang_add(x, x, x, 64); }",
    "an absent system header": "#include <nowhere/at_all.h>\n__mlu_global__ void k(int *x) { x[0] = 1; }",
    "a macro that eats itself": HEAD + "#define A B\n#define B A\n__mlu_global__ void k(int *x) { x[0] = A; }",
    "an error of the preprocessor": HEAD + "#error not for this part\n__mlu_global__ void k(int *x) { x[0] = 1; }",
    "a template without end": HEAD + "template <int N> struct S { static constexpr int v = S<N + 1>::v; };\n"
    "__mlu_global__ void k(int *x) { x[0] = S<0>::v; }",
    "a run-time length": HEAD + "__mlu_global__ void k(int *x, int n) { int a[n]; a[n - 1] = 1; x[0] = a[x[1]]; }",
    "virtual functions": HEAD + "struct A { virtual int f() { return 1; } };\nstruct B : A { int f() override { return 2; } };\n"
    "__mlu_global__ void k(int *x) { A a; B b; A *p = x[0] ? &a : &b; x[1] = p->f(); }",
    "exceptions": HEAD + "__mlu_global__ void k(int *x) { try { throw 1; } catch (int e) { x[0] = e; } }",
    "new and delete": HEAD + "__mlu_global__ void k(int *x) { int *p = new int[x[0]]; x[1] = p[x[2]]; delete[] p; }",
    "wide integers": HEAD + "__mlu_global__ void k(long *x) { x[0] = (long)(((__int128)x[1] * x[2]) >> 64); }",
    "long double": HEAD + "__mlu_global__ void k(float *x) { long double a = x[0]; x[1] = (float)(a * a); }",
    "a launch without end": HEAD + "__mlu_global__ void k(int *x) { x[0] = 1; }\nvoid h() { k<<<1, 2(x); }",
    "bytes of no text": HEAD + "__mlu_global__ void k(int *x) { x[0] = \x01\x02\x7f; }",
    "unknown assembly": HEAD + '__mlu_global__ void k(int *x) { __asm__ volatile("fuse.nram.f32 [%0], 3, [%1], .frob(2);" ::"r"(x), "r"(x)); }',
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_sources(what: str, tmp_path: Path) -> None:
    survives(HOSTILE[what], tmp_path, level=2)
    survives(HOSTILE[what], tmp_path, level=0)
