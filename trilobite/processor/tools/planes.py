"""Who touched each byte of a memory last: the shadow behind the race checker.

Enters: accesses (a span, a thread, the thread's count of accesses). Leaves: the earlier accesses to common
bytes that a given knowledge does not order before. A thread is one queue of one core.

Bytes are kept in granules: the largest size that divides every boundary seen so far in a page, so the
answer is byte-exact and large tiles cost little. A page that meets an odd boundary is split finer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import gcd

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.tools.spans import Axes, Span, cut

PAGE = 1 << 18
COARSEST = 256
SHIFT = 40  # a writer's code is thread << SHIFT | count
COUNT = (1 << SHIFT) - 1
Hit = tuple[int, int, int, int]  # thread, count, first byte, byte behind the last


class Page:
    """One page: per granule the last writer, and per reading thread its last read."""

    def __init__(self, size: int) -> None:
        self.size, self.granule = size, COARSEST
        self.version = 0  # how often its planes have moved or become more
        self.writer = self._plane()
        self.readers: dict[int, Array] = {}

    def _plane(self) -> Array:
        return np.zeros(-(-self.size // self.granule), np.int64)

    def fit(self, offset: int, row: int, axes: Axes) -> bool:
        """Makes granules so fine that the access begins and ends with one; true if they were coarser."""
        fine = gcd(self.granule, offset)
        if axes or offset + row != self.size:  # the end of the memory needs no boundary
            fine = gcd(fine, row, *(stride for _, stride in axes))
        if fine == self.granule:
            return False
        times = self.granule // fine
        self.granule = fine
        self.version += 1
        count = -(-self.size // fine)
        self.writer = np.repeat(self.writer, times)[:count]
        self.readers = {thread: np.repeat(plane, times)[:count] for thread, plane in self.readers.items()}
        return True

    def view(self, plane: Array, offset: int, row: int, axes: Axes) -> Array:
        """The granules of an access."""
        g = self.granule
        first, width = offset // g, -(-row // g)
        if not axes:
            return plane[first : first + width]
        shape = (*(extent for extent, _ in axes), width)
        strides = (*(stride // g * 8 for _, stride in axes), 8)
        return np.ndarray(shape, plane.dtype, plane, first * 8, strides)

    def reader(self, thread: int) -> Array:
        if thread not in self.readers:
            self.version += 1
            self.readers[thread] = self._plane()
        return self.readers[thread]

    def bytes_of(self, start: int, end: int, offset: int, row: int, axes: Axes) -> tuple[int, int]:
        """Where granules start to end of a flat view lie in the page, as far as they are in one row."""
        width = -(-row // self.granule)
        rest, inner = divmod(start, width)
        count = min(end - start, width - inner)
        byte = offset + inner * self.granule
        for extent, stride in reversed(axes):
            rest, index = divmod(rest, extent)
            byte += index * stride
        return byte, min(byte + count * self.granule, self.size)


class Uses:
    """How one thread has used a memory so far: its last access, and the bytes between which they lie."""

    __slots__ = ("words",)

    def __init__(self, thread: int) -> None:
        self.words = array("q", (thread, 0, 1 << 62, 0))  # thread, last, low, high: machine code shares them

    @property
    def address(self) -> int:
        return self.words.buffer_info()[0]

    def add(self, low: int, high: int, count: int) -> None:
        words = self.words
        words[1] = count
        if low < words[2]:
            words[2] = low
        if high > words[3]:
            words[3] = high

    def concerns(self, span: Span, known: int) -> bool:
        """Whether this thread may have touched bytes of the span beyond what is known of it."""
        words = self.words
        return known < words[1] and words[2] < span.high and span.low < words[3]


class Surface:
    """One memory of the chip."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pages: dict[int, Page] = {}
        self.layouts = 0  # how often pages, planes, uses were added or split: addresses may have changed
        self.writes: dict[int, Uses] = {}
        self.reads: dict[int, Uses] = {}

    def page(self, number: int) -> Page:
        found = self.pages.get(number)
        if found is None:
            found = self.pages[number] = Page(min(PAGE, self.size - number * PAGE))
            self.layouts += 1
        return found

    def parts(self, span: Span) -> Iterable[tuple[Page, int, int, int, Axes]]:
        """Pages with the span's part in each: the page's first byte, then offset, row and axes inside it."""
        number, offset = divmod(span.low, PAGE)
        if span.high <= (number + 1) * PAGE:  # most spans
            page = self.page(number)
            self.layouts += page.fit(offset, span.row, span.axes)
            return ((page, number * PAGE, offset, span.row, span.axes),)
        return self._cut(span)

    def _stretch(self, span: Span) -> tuple[Page, int, slice] | None:
        """The page of a span that is one row in one page, the page's first byte, and the span's granules."""
        if span.axes:
            return None
        number, offset = divmod(span.low, PAGE)
        if offset + span.row > PAGE:
            return None
        page = self.pages.get(number) or self.page(number)
        if (offset | span.row) & (page.granule - 1):
            self.layouts += page.fit(offset, span.row, ())
        first = offset // page.granule
        return page, number * PAGE, slice(first, first - (-span.row // page.granule))

    def _cut(self, span: Span) -> Iterator[tuple[Page, int, int, int, Axes]]:
        for number, offset, row, axes in cut(span.low, span.row, span.axes, PAGE):
            page = self.page(number)
            self.layouts += page.fit(offset, row, axes)
            yield page, number * PAGE, offset, row, axes

    def unordered_writes(self, span: Span, known: Sequence[int], own: frozenset[int]) -> list[Hit]:
        """Writes to bytes of the span that are neither the own threads' nor known."""
        if not any(t not in own and uses.concerns(span, known[t]) for t, uses in self.writes.items()):
            return []
        plain = self._stretch(span)
        if plain is not None and (code := _single(plain[0].writer[plain[2]])) is not None:
            thread, count = code >> SHIFT, code & COUNT
            is_fine = not code or thread in own or known[thread] >= count
            return [] if is_fine else [(thread, count, span.low, span.high)]
        hits: list[Hit] = []
        for page, base, offset, row, axes in self.parts(span):
            codes = page.view(page.writer, offset, row, axes).reshape(-1)
            for start, end, code in runs(codes):
                thread, count = code >> SHIFT, code & COUNT
                if code and thread not in own and known[thread] < count:
                    low, high = page.bytes_of(start, end, offset, row, axes)
                    hits.append((thread, count, base + low, base + high))
        return hits

    def unordered_reads(self, span: Span, known: Sequence[int], own: frozenset[int]) -> list[Hit]:
        """Reads of bytes of the span that are neither the own threads' nor known."""
        threads = [t for t, uses in self.reads.items() if t not in own and uses.concerns(span, known[t])]
        hits: list[Hit] = []
        plain = self._stretch(span) if threads else None
        for thread in threads:
            if plain is not None:
                touched = plain[0].readers.get(thread)
                if touched is None or int(touched[plain[2]].max()) <= known[thread]:
                    continue
            for page, base, offset, row, axes in self.parts(span):
                plane = page.readers.get(thread)
                if plane is None:
                    continue
                counts = page.view(plane, offset, row, axes).reshape(-1)
                for start, end, count in runs(counts):
                    if count > known[thread]:
                        low, high = page.bytes_of(start, end, offset, row, axes)
                        hits.append((thread, count, base + low, base + high))
        return hits

    def uses(self, by_thread: dict[int, Uses], thread: int) -> Uses:
        found = by_thread.get(thread)
        if found is None:
            found = by_thread[thread] = Uses(thread)
            self.layouts += 1
        return found

    def reader(self, page: Page, thread: int) -> Array:
        if thread not in page.readers:
            self.layouts += 1
        return page.reader(thread)

    def write(self, span: Span, thread: int, count: int) -> None:
        self.uses(self.writes, thread).add(span.low, span.high, count)
        plain = self._stretch(span)
        if plain is not None:
            plain[0].writer[plain[2]] = thread << SHIFT | count
            return
        for page, _, offset, row, axes in self.parts(span):
            page.view(page.writer, offset, row, axes)[...] = thread << SHIFT | count

    def read(self, span: Span, thread: int, count: int) -> None:
        self.uses(self.reads, thread).add(span.low, span.high, count)
        plain = self._stretch(span)
        if plain is not None:
            self.reader(plain[0], thread)[plain[2]] = count
            return
        for page, _, offset, row, axes in self.parts(span):
            page.view(self.reader(page, thread), offset, row, axes)[...] = count


def _single(values: Array) -> int | None:
    """The value that all have; None if there are several."""
    first = int(values[0])
    return first if len(values) == 1 or bool((values == first).all()) else None


def runs(values: Array) -> Iterable[tuple[int, int, int]]:
    """(start, end, value) of each run of equal values."""
    if len(values) == 1:  # a scalar access
        return ((0, 1, int(values[0])),)
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = [0, *edges.tolist()]
    return zip(starts, [*starts[1:], len(values)], values[starts].tolist(), strict=True)
