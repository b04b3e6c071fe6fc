"""Which bytes of a memory are written, by elements of every width and two to a byte."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.processor.device import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.formats import F16, F32, I4, I8, I64
from trilobite.processor.isa.row import NRAM, Region
from trilobite.processor.sim.memory import Place
from trilobite.processor.tools.definedness import Definedness

HERE = Place(0, 0)


@pytest.mark.parametrize("fmt", [I4, I8, F16, F32, I64], ids=lambda f: f.name)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
def test_masks_of_elements_are_kept(fmt: object, count: int) -> None:
    shadow = Definedness(Device("dlp-s").memory)
    region = Region(address(NRAM, 64), fmt, (count,), (fmt.align,), "n")  # type: ignore[arg-type, attr-defined]
    found = shadow.undefined(HERE, region)
    assert found is not None and found.all() and found.shape == (count,)
    shadow.write_mask(HERE, region, None)
    assert shadow.undefined(HERE, region) is None
    for last in range(count):
        mask = np.zeros(count, bool)
        mask[last] = True
        shadow.write_mask(HERE, region, mask)
        found = shadow.undefined(HERE, region)
        assert found is not None
        same = [i // 2 == last // 2 for i in range(count)] if fmt is I4 else [i == last for i in range(count)]
        np.testing.assert_array_equal(found, same)  # of two in a byte, neither is defined
