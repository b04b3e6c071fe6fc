"""Fast paths give the bits of the meaning, for every lawful format, with edge values and odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.row import IllegalOperands
from trilobite.processor.isa.rows.matrix import float_chain
from trilobite.processor.isa.table import MNEMONICS
from trilobite.processor.sim.kernels import KERNELS, fast_chain


@pytest.mark.parametrize("mnemonic", KERNELS)
def test_kernel_equals_meaning_in_every_format(mnemonic: str, rng, operands_for, values_for) -> None:
    row = MNEMONICS[mnemonic][0]
    with np.errstate(all="ignore"):
        for formats in row.formats:
            for edges in (False, True):
                o = operands_for(rng, row, formats)
                flags = tuple(o.values[flag.name] for flag in row.flags)
                if unlawful(Instruction(row, (0,) * len(row.registers), formats, flags)):
                    continue
                try:
                    reads = list(row.reads(o))
                except IllegalOperands:
                    continue
                arrays = [values_for(rng, region.fmt, region.shape, edges) for region in reads]
                for want, got in zip(row.meaning(o, *arrays), KERNELS[mnemonic](o, *arrays), strict=True):
                    assert got.dtype == want.dtype and got.shape == want.shape
                    assert got.tobytes() == want.tobytes(), (formats, o.values)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(1, 40), st.integers(0, 30), st.integers(0, 2**32))
def test_chain_of_any_shape(m: int, n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = ((m, k), (k, n), (m, n))
    a, b, start = (rng.standard_normal(shape) * 10.0 ** rng.integers(-20, 20, shape) for shape in shapes)
    with np.errstate(all="ignore"):
        a, b, start = (x.astype(np.float32) for x in (a, b, start))
        want, got = float_chain(a, b, start), np.ascontiguousarray(fast_chain(a, b, start))
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all() and got[~nan].tobytes() == want[~nan].tobytes()


def test_long_integer_products_stay_exact(rng) -> None:
    from trilobite.processor.isa.formats import I8, I64
    from trilobite.processor.isa.row import Operands

    a, b = np.full((2, 5000), -128, np.int8), np.full((5000, 3), -128, np.int8)
    flags = dict.fromkeys(("acc", "bias", "scale", "activation", "ta", "tb"), "")
    o = Operands({"f0": I64, "f1": I8, "f2": I8, "m": 2, "n": 3, "k": 5000, **flags})
    assert (KERNELS["MM"](o, a, b)[0] == 16384 * 5000).all()
