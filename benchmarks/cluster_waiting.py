"""What is left to wait for: `trilobite launch -n 2 --threads 1 benchmarks/cluster_waiting.py`.

A compiled step of twelve layers of 512 × 512 on 128 rows with Adam, data parallel, gradients in buckets of
1 MB. Beside it the blocking form: gradients in one compiled function, then each bucket's sum by itself, then
the update in another function. Seconds in which a rank did nothing but wait, rounds of both in turn. The rank
that computes longest waits for messages alone, the other one for it as well, so both are shown; what the
first waits is what the exchange costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster, nn, optim
from trilobite.cluster.gradients import buckets, flat

WIDTH, LAYERS, ROWS, STEPS, ROUNDS = 512, 12, 128, 10, 7


def waited() -> float:
    return float(sum(row.waited for row in cluster.traffic()))


def spent(run: Any) -> tuple[float, float]:
    """Milliseconds of waiting in a step, of the rank that waits least and of the one that waits most."""
    cluster.barrier()
    before = waited()
    for _ in range(STEPS):
        run()
    own = np.float64(waited() - before) / STEPS * 1e3
    return float(cluster.all_reduce(own, "min").item()), float(cluster.all_reduce(own, "max").item())


def main() -> None:
    tb.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
    dp = cluster.DataParallel(model)
    x = tb.tensor(np.random.default_rng(cluster.rank()).normal(size=(ROWS, WIDTH)).astype("f4"))

    def gradients(x: Any) -> Any:
        dp.zero_grad()
        loss = (dp(x) ** 2).mean()
        loss.backward()
        return loss.detach()

    opt = optim.Adam(model.parameters(), lr=1e-5)

    def together(x: Any) -> Any:
        loss = gradients(x)
        dp.reduce_gradients()
        opt.step()
        return loss

    overlapped, alone, update = tb.jit(together), tb.jit(gradients), tb.jit(opt.step)
    add = tb.jit(lambda line: cluster.all_reduce(line, "mean"))

    def blocking() -> None:
        alone(x)
        for rows in buckets([p.grad for p in reversed(list(model.parameters())) if p.grad is not None]):
            add(flat(rows))
        update()

    for _ in range(3):
        overlapped(x)
        blocking()
    pairs = [(spent(lambda: overlapped(x)), spent(blocking)) for _ in range(ROUNDS)]
    if cluster.rank() == 0:
        for a, b in pairs:
            print(
                f"exposed {a[0]:5.2f} and {a[1]:5.2f} ms a step, blocking {b[0]:5.2f} and {b[1]:5.2f}",
                flush=True,
            )
        least, most = (float(np.median([a[k] / b[k] for a, b in pairs])) for k in (0, 1))
        print(f"median {least:.2f} and {most:.2f} of the blocking form's waiting", flush=True)


if __name__ == "__main__":
    main()
