"""Inner loops of our own, as LLVM texts: what NumPy has no ufunc for.

Each has the signature of a ufunc's inner loop: operands, sizes, steps in bytes, data (unused). Those of one
level go through elements: they copy, choose and convert. Those of two levels go through `m` lanes and `n`
elements of each: they take and put at computed places, find the place of the largest, order.
"""

from __future__ import annotations

from trilobite.native.runtime import filled

SIZES = (1, 2, 4, 8)
NUMBERS = {
    "?": "i8", "b": "i8", "B": "i8", "i": "i32", "I": "i32", "l": "i64", "L": "i64", "f": "float",
    "d": "double",
}  # fmt: skip
CONVERSIONS = {
    "?f": "uitofp", "?d": "uitofp", "bf": "sitofp", "bd": "sitofp", "if": "sitofp", "id": "sitofp",
    "lf": "sitofp", "ld": "sitofp", "fd": "fpext", "df": "fptrunc", "?l": "zext", "?i": "zext", "il": "sext",
    "If": "uitofp", "Id": "uitofp", "IL": "zext", "LI": "trunc", "Lf": "uitofp", "Ld": "uitofp",
}  # fmt: skip
"""Pairs of NumPy's characters for dtypes whose conversion is one instruction."""
COMPARED = "?Bilfd"
ADDED = "ilfd"

_LINE = """
define internal void @$name(ptr %operands, ptr %dims, ptr %steps, ptr %data) {
start:
  %n = load i64, ptr %dims
$open
  br label %test
test:
  %i = phi i64 [ 0, %start ], [ %after, %body ]
  %left = icmp slt i64 %i, %n
  br i1 %left, label %body, label %done
body:
$body
  %after = add i64 %i, 1
  br label %test
done:
  ret void
}
"""

# sizes: n elements of a lane, places (or anything), m lanes
_LANES = """
define internal void @$name(ptr %operands, ptr %dims, ptr %steps, ptr %data) {
start:
$open
  br label %lanes
lanes:
  %j = phi i64 [ 0, %start ], [ %j1, %end ]
  %more = icmp slt i64 %j, %d2
  br i1 %more, label %lane, label %done
lane:
$lane
  br label %test
test:
  %i = phi i64 [ $first, %lane ], [ %i1, %next ]
  %left = icmp slt i64 %i, %d0
  br i1 %left, label %body, label %end
body:
$body
next:
  %i1 = add i64 %i, 1
  br label %test
end:
$end
  %j1 = add i64 %j, 1
  br label %lanes
done:
  ret void
}
"""


def _operand(k: int) -> str:
    return f"""  %p{k}_at = getelementptr ptr, ptr %operands, i64 {k}
  %p{k} = load ptr, ptr %p{k}_at
  %s{k}_at = getelementptr i64, ptr %steps, i64 {k}
  %s{k} = load i64, ptr %s{k}_at"""


def _loaded(kind: str, of: str, k: int) -> str:
    return f"  %{of}{k}_at = getelementptr i64, ptr %{kind}, i64 {k}\n  %{of}{k} = load i64, ptr %{of}{k}_at"


def _moved(out: str, base: str, index: str, step: str) -> str:
    """`out` is so many steps behind `base`."""
    return f"  %{out}_by = mul i64 %{index}, %{step}\n  %{out} = getelementptr i8, ptr %{base}, i64 %{out}_by"


def _line(name: str, operands: int, body: str) -> str:
    opened = "\n".join(_operand(k) for k in range(operands))
    placed = "\n".join(_moved(f"q{k}", f"p{k}", "i", f"s{k}") for k in range(operands))
    return filled(_LINE, {"name": name, "open": opened, "body": f"{placed}\n{body}"})


def _lanes(
    name: str, operands: int, lane: str, body: str, end: str = "", more: str = "", first: int = 0
) -> str:
    opened = [_operand(k) for k in range(operands)]
    opened += [_loaded("steps", "s", k) for k in range(operands, 6)]
    opened += [_loaded("dims", "d", k) for k in range(4)]
    facts = {"name": name, "open": "\n".join(opened) + more, "lane": lane, "body": body, "end": end}
    return filled(_LANES, {**facts, "first": first})


def _copying(size: int) -> str:
    word = f"i{size * 8}"
    return _line(f"copy{size}", 2, f"  %x = load {word}, ptr %q0\n  store {word} %x, ptr %q1")


def _choosing(size: int) -> str:
    word = f"i{size * 8}"
    body = f"""  %p = load i8, ptr %q0
  %x = load {word}, ptr %q1
  %y = load {word}, ptr %q2
  %yes = icmp ne i8 %p, 0
  %z = select i1 %yes, {word} %x, {word} %y
  store {word} %z, ptr %q3"""
    return _line(f"choose{size}", 4, body)


def _converting(pair: str) -> str:
    source, target = NUMBERS[pair[0]], NUMBERS[pair[1]]
    body = f"""  %x = load {source}, ptr %q0
  %y = {CONVERSIONS[pair]} {source} %x to {target}
  store {target} %y, ptr %q1"""
    return _line(f"convert_{ord(pair[0])}_{ord(pair[1])}", 2, body)


_WITHIN = """  %below = icmp slt i64 %index, 0
  %known = select i1 %below, i64 0, i64 %index
  %last = sub i64 %d1, 1
  %beyond = icmp sgt i64 %known, %last
  %place = select i1 %beyond, i64 %last, i64 %known
"""


def _taking(size: int) -> str:
    """Operands x, places, out. Steps: of x by place, of places and out by element; the three by lane."""
    word = f"i{size * 8}"
    lane = "\n".join(_moved(f"l{k}", f"p{k}", "j", f"s{k + 3}") for k in range(3))
    body = f"""{_moved("at", "l1", "i", "s1")}
  %index = load i64, ptr %at
{_WITHIN}{_moved("from", "l0", "place", "s0")}
{_moved("to", "l2", "i", "s2")}
  %x = load {word}, ptr %from
  store {word} %x, ptr %to
  br label %next"""
    return _lanes(f"take{size}", 3, lane, body)


def _putting(name: str, word: str, change: str) -> str:
    """Operands places, updates, out. Steps: of places and updates by element, of out by place; the three by
    lane. With a fourth size, places below 0 are left out.
    """
    lane = "\n".join(_moved(f"l{k}", f"p{k}", "j", f"s{k + 3}") for k in range(3))
    body = f"""{_moved("at", "l0", "i", "s0")}
  %index = load i64, ptr %at
  %none = icmp slt i64 %index, 0
  %skips = icmp ne i64 %d3, 0
  %skip = and i1 %none, %skips
  br i1 %skip, label %next, label %put
put:
{_WITHIN}{_moved("from", "l1", "i", "s1")}
{_moved("to", "l2", "place", "s2")}
  %u = load {word}, ptr %from
{change}
  br label %next"""
    return _lanes(name, 3, lane, body)


def _setting(size: int) -> str:
    word = f"i{size * 8}"
    return _putting(f"put{size}", word, f"  store {word} %u, ptr %to")


def _adding(kind: str) -> str:
    word = NUMBERS[kind]
    add = "fadd" if kind in "fd" else "add"
    change = f"  %old = load {word}, ptr %to\n  %sum = {add} {word} %old, %u\n  store {word} %sum, ptr %to"
    return _putting(f"add_{ord(kind)}", word, change)


def _first(kind: str, rising: bool, a: str, b: str) -> str:
    """%before: does %a come before %b in rising (or falling) order? NaN counts as the largest."""
    word = NUMBERS[kind]
    if kind in "fd":
        less, nan, number = ("olt", b, a) if rising else ("ogt", a, b)
        return f"""  %less = fcmp {less} {word} %{a}, %{b}
  %nan = fcmp uno {word} %{nan}, %{nan}
  %number = fcmp ord {word} %{number}, %{number}
  %apart = and i1 %nan, %number
  %before = or i1 %less, %apart"""
    sign = "s" if kind in "bil" else "u"
    return f"  %before = icmp {sign}{'lt' if rising else 'gt'} {word} %{a}, %{b}"


def _ordering(kind: str, rising: bool) -> str:
    """Operands x and places: those of its elements in order, equal ones as they stood. Steps: of both by
    element, of both by lane. By insertion: for short lanes.
    """
    word = NUMBERS[kind]
    lane = "\n".join(_moved(f"l{k}", f"p{k}", "j", f"s{k + 2}") for k in range(2))
    body = f"""{_moved("x_at", "l0", "i", "s0")}
  %x = load {word}, ptr %x_at
  br label %find
find:
  %q = phi i64 [ %i, %body ], [ %q1, %shift ]
  %some = icmp sgt i64 %q, 0
  br i1 %some, label %look, label %put
look:
  %q1 = sub i64 %q, 1
{_moved("prev_at", "l1", "q1", "s1")}
  %prev = load i64, ptr %prev_at
{_moved("y_at", "l0", "prev", "s0")}
  %y = load {word}, ptr %y_at
{_first(kind, rising, "x", "y")}
  br i1 %before, label %shift, label %put
shift:
{_moved("far_at", "l1", "q", "s1")}
  store i64 %prev, ptr %far_at
  br label %find
put:
{_moved("put_at", "l1", "q", "s1")}
  store i64 %i, ptr %put_at
  br label %next"""
    return _lanes(f"{'rise' if rising else 'fall'}_{ord(kind)}", 2, lane, body)


def _finding(kind: str, largest: bool) -> str:
    """Operands x and the place of its largest (smallest) element: the first of equals, NaN before all.
    Steps: of x by element; of x and of the place by lane.
    """
    word = NUMBERS[kind]
    lane = f"""{_moved("l0", "p0", "j", "s2")}
{_moved("l1", "p1", "j", "s3")}
  %x0 = load {word}, ptr %l0
  store {word} %x0, ptr %best
  store i64 0, ptr %where"""
    if kind in "fd":
        test = f"""  %better = fcmp {"ugt" if largest else "ult"} {word} %x, %old
  %open = fcmp ord {word} %old, %old
  %found = and i1 %better, %open"""
    else:
        sign = "s" if kind in "bil" else "u"
        test = f"  %found = icmp {sign}{'gt' if largest else 'lt'} {word} %x, %old"
    body = f"""{_moved("at", "l0", "i", "s0")}
  %x = load {word}, ptr %at
  %old = load {word}, ptr %best
{test}
  br i1 %found, label %keep, label %next
keep:
  store {word} %x, ptr %best
  store i64 %i, ptr %where
  br label %next"""
    end = "  %found_at = load i64, ptr %where\n  store i64 %found_at, ptr %l1"
    more = f"\n  %best = alloca {word}\n  %where = alloca i64"
    return _lanes(f"{'most' if largest else 'least'}_{ord(kind)}", 2, lane, body, end, more, first=1)


def _placing() -> str:
    """Operands index, place, new place: place + (index within its size) x stride. Sizes: elements, places,
    1, stride. Steps: of the three by element.
    """
    body = f"""{_moved("at", "p0", "i", "s0")}
{_moved("from", "p1", "i", "s1")}
{_moved("to", "p2", "i", "s2")}
  %index = load i64, ptr %at
{_WITHIN}  %old = load i64, ptr %from
  %far = mul i64 %place, %d3
  %new = add i64 %old, %far
  store i64 %new, ptr %to
  br label %next"""
    return _lanes("place", 3, "", body)


def _round(r: int, keys: tuple[int, int]) -> str:
    """A round of Philox 4x32: words %a{r}.. to %a{r+1}.., keys raised by so much."""
    m0, m1 = 0xD2511F53, 0xCD9E8D57
    n = r + 1
    return f"""  %u{r} = mul i64 %a{r}, {m0}
  %v{r} = mul i64 %c{r}, {m1}
  %hu{r} = lshr i64 %u{r}, 32
  %hv{r} = lshr i64 %v{r}, 32
  %kr{r} = add i64 %k, {keys[0]}
  %k{r} = and i64 %kr{r}, 4294967295
  %mr{r} = add i64 %m, {keys[1]}
  %m{r} = and i64 %mr{r}, 4294967295
  %xa{r} = xor i64 %hv{r}, %b{r}
  %a{n} = xor i64 %xa{r}, %k{r}
  %b{n} = and i64 %v{r}, 4294967295
  %xc{r} = xor i64 %hu{r}, %e{r}
  %c{n} = xor i64 %xc{r}, %m{r}
  %e{n} = and i64 %u{r}, 4294967295
"""


def _random() -> str:
    """Operands key, counter, out, of words of 32 bits: blocks of four words. Sizes: blocks, stream."""
    opened = """
  %k_word = load i32, ptr %p0
  %k = zext i32 %k_word to i64
  %m_at = getelementptr i8, ptr %p0, i64 4
  %m_word = load i32, ptr %m_at
  %m = zext i32 %m_word to i64
  %begin = load i64, ptr %p1, align 4"""
    rounds = "".join(_round(r, (r * 0x9E3779B9, r * 0xBB67AE85)) for r in range(10))
    stores = "".join(
        f"  %{w}_word = trunc i64 %{w}10 to i32\n  %{w}_at = getelementptr i32, ptr %to, i64 {i}\n"
        f"  store i32 %{w}_word, ptr %{w}_at\n"
        for i, w in enumerate("abce")
    )
    body = f"""  %to_by = mul i64 %i, 16
  %to = getelementptr i8, ptr %p2, i64 %to_by
  %count = add i64 %begin, %i
  %a0 = and i64 %count, 4294967295
  %b0 = lshr i64 %count, 32
  %c0 = add i64 0, 0
  %e0 = add i64 %d1, 0
{rounds}{stores}  br label %next"""
    return _lanes("random", 3, "", body, more=opened)


def texts() -> dict[str, str]:
    """All loops by name."""
    found = {f"copy{n}": _copying(n) for n in SIZES} | {f"choose{n}": _choosing(n) for n in SIZES}
    found |= {f"convert_{ord(p[0])}_{ord(p[1])}": _converting(p) for p in CONVERSIONS}
    return found


def lane_texts() -> dict[str, str]:
    """Those of two levels by name."""
    found = {f"take{n}": _taking(n) for n in SIZES} | {f"put{n}": _setting(n) for n in SIZES}
    found |= {f"add_{ord(c)}": _adding(c) for c in ADDED}
    for c in COMPARED:
        found |= {f"rise_{ord(c)}": _ordering(c, True), f"fall_{ord(c)}": _ordering(c, False)}
        found |= {f"most_{ord(c)}": _finding(c, True), f"least_{ord(c)}": _finding(c, False)}
    return found | {"place": _placing(), "random": _random()}
