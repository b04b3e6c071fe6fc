"""Statistics of batch normalisations, taken anew."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework.optim.averaging import update_bn

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_are_taken_anew_in_either_mode(training: bool) -> None:
    model = tb.nn.Sequential(tb.nn.BatchNorm1d(3, momentum=0.3), tb.nn.Dropout(0.5))
    model.train(training)
    norm = model[0]
    norm.running_mean.fill_(9.0)
    batches = [RNG.standard_normal((8, 3)).astype(np.float32) + n for n in range(3)]
    update_bn([(batches[0], 1), [batches[1]], tb.tensor(batches[2])], model)
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0), rtol=1e-5)
    wanted = np.mean([b.var(0, ddof=1) for b in batches], 0)
    np.testing.assert_allclose(norm.running_var.numpy(), wanted, rtol=1e-5)
    assert norm.momentum == 0.3 and norm.training == model[1].training == model.training == training
