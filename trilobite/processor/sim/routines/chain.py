"""The stated chain as LLVM text: one fused multiply-add per k, k ascending, many outputs side by side.

Enters: nothing. Leaves: the text of `gemm(a, b, c, m, n, k)`, c[m][n] += a[m][k] b[k][n] of float32, n a
multiple of `COLUMNS`.
"""

from __future__ import annotations

from functools import lru_cache

COLUMNS = 16  # outputs of one row of a tile: two vectors of eight
ROWS = 6  # rows of a tile: twelve accumulators, as many as the registers of AVX2 hold beside the operands


def _tile(rows: int) -> str:
    """LLVM text of c[rows][16] += a[rows][k] b[k][16], one fma chain per output."""
    cells = [(r, h) for r in range(rows) for h in range(2)]
    head = [_TILE_POINTERS.format(r=r) for r in range(rows)]
    running = [f"  %t{r}{h} = phi <8 x float> [ %s{r}{h}, %entry ], [ %n{r}{h}, %loop ]" for r, h in cells]
    steps = [_TILE_STEP.format(r=r) for r in range(rows)]
    results = [f"  %r{r}{h} = phi <8 x float> [ %s{r}{h}, %entry ], [ %n{r}{h}, %loop ]" for r, h in cells]
    stores = [f"  store <8 x float> %r{r}{h}, ptr %cp{r}{h}, align 4" for r, h in cells]
    parts = [
        _TILE_HEAD.replace("ROWS", str(rows)),
        *head,
        _TILE_LOOP,
        *running,
        _TILE_LOAD,
        *steps,
        _TILE_NEXT,
    ]
    return "\n".join([*parts, *results, *stores, "  ret void", "}", ""])


_TILE_HEAD = """
define void @tileROWS(ptr noalias %a, ptr noalias %b, ptr noalias %c,
                      i64 %k, i64 %lda, i64 %ldb, i64 %ldc) {
entry:"""
_TILE_POINTERS = """  %co{r} = mul i64 %ldc, {r}
  %cp{r}0 = getelementptr float, ptr %c, i64 %co{r}
  %cp{r}1 = getelementptr float, ptr %cp{r}0, i64 8
  %s{r}0 = load <8 x float>, ptr %cp{r}0, align 4
  %s{r}1 = load <8 x float>, ptr %cp{r}1, align 4
  %ao{r} = mul i64 %lda, {r}
  %ap{r} = getelementptr float, ptr %a, i64 %ao{r}"""
_TILE_LOOP = """  %some = icmp sgt i64 %k, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %bp = phi ptr [ %b, %entry ], [ %bnext, %loop ]"""
_TILE_LOAD = """  %b0 = load <8 x float>, ptr %bp, align 4
  %bq = getelementptr float, ptr %bp, i64 8
  %b1 = load <8 x float>, ptr %bq, align 4"""
_TILE_STEP = """  %ax{r} = getelementptr float, ptr %ap{r}, i64 %i
  %av{r} = load float, ptr %ax{r}, align 4
  %ai{r} = insertelement <8 x float> poison, float %av{r}, i64 0
  %ab{r} = shufflevector <8 x float> %ai{r}, <8 x float> poison, <8 x i32> zeroinitializer
  %n{r}0 = call <8 x float> @llvm.fma.v8f32(<8 x float> %ab{r}, <8 x float> %b0, <8 x float> %t{r}0)
  %n{r}1 = call <8 x float> @llvm.fma.v8f32(<8 x float> %ab{r}, <8 x float> %b1, <8 x float> %t{r}1)"""
_TILE_NEXT = """  %next = add i64 %i, 1
  %bnext = getelementptr float, ptr %bp, i64 %ldb
  %more = icmp slt i64 %next, %k
  br i1 %more, label %loop, label %done
done:"""


def _gemm() -> str:
    """All tiles of c[m][n] += a[m][k] b[k][n]; n is a multiple of 16."""
    return (
        """
define void @gemm(ptr %a, ptr %b, ptr %c, i64 %m, i64 %n, i64 %k) {
entry:
  br label %columns
columns:
  %j = phi i64 [ 0, %entry ], [ %jnext, %after ]
  %more = icmp slt i64 %j, %n
  br i1 %more, label %wide, label %done
wide:
  %i = phi i64 [ 0, %columns ], [ %inext, %full ]
  %inext = add i64 %i, ROWS
  %fits = icmp sle i64 %inext, %m
  br i1 %fits, label %full, label %narrow
full:
FULL
  br label %wide
narrow:
  %r = phi i64 [ %i, %wide ], [ %rnext, %single ]
  %left = icmp slt i64 %r, %m
  br i1 %left, label %single, label %after
single:
SINGLE
  %rnext = add i64 %r, 1
  br label %narrow
after:
  %jnext = add i64 %j, COLUMNS
  br label %columns
done:
  ret void
}
""".replace("FULL", _CALL.format(i="i", rows=ROWS))
        .replace("SINGLE", _CALL.format(i="r", rows=1))
        .replace("ROWS", str(ROWS))
        .replace("COLUMNS", str(COLUMNS))
    )


_CALL = """  %a{i} = mul i64 %{i}, %k
  %ap{i} = getelementptr float, ptr %a, i64 %a{i}
  %b{i} = getelementptr float, ptr %b, i64 %j
  %c{i} = mul i64 %{i}, %n
  %cj{i} = add i64 %c{i}, %j
  %cp{i} = getelementptr float, ptr %c, i64 %cj{i}
  call void @tile{rows}(ptr %ap{i}, ptr %b{i}, ptr %cp{i}, i64 %k, i64 %k, i64 %n, i64 %n)"""
"""The tile of the rows from one of them on."""


@lru_cache(maxsize=1)
def chain_text() -> str:
    """LLVM text of `gemm`, for code that calls it."""
    declared = "declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)\n"
    return (declared + _tile(ROWS) + _tile(1) + _gemm()).replace("define void", "define internal void")
