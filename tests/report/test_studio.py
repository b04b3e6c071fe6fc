"""The studio: live numbers of what runs, on loopback, for whoever has the token."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from tests.report.conftest import KEPT
from tools.browser import Browser
from trilobite.base.errors import StateError
from trilobite.framework.progress import Progress
from trilobite.native import watching
from trilobite.processor import Device
from trilobite.report.feed import MOST, Curve, Feed
from trilobite.report.studio import Studio

KERNEL = """
    .entry scale
    .nram
    x: .space 4096
    .text
    scale:
        LA     $10, x
        VLOAD  $10, $1, $0, #0
        VEXP   $10, $1, $10
"""


@pytest.fixture
def feed() -> Iterator[Feed]:
    with Feed().listening() as found:
        yield found


@pytest.fixture
def served(feed: Feed) -> Iterator[Studio]:
    studio = Studio(feed)
    yield studio
    studio.close()


def work() -> int:
    """Three steps of a training, and a launch."""
    with Progress(wanted=False) as bar:
        bar.start("epoch <b>1</b>", 3)
        for loss in (3.0, 2.0, 1.5):
            bar.advance({"loss": loss})
    device = Device("dlp-s")
    return device.launch(
        device.load(KERNEL)["scale"], args=[device.array(np.ones(99, np.float32)), 99]
    ).cycles


def asked(studio: Studio, path: str, token: str | None = None, host: str = "") -> tuple[int, str]:
    address = studio.address.split("?")[0].rstrip("/")
    query = f"{address}{path}?token={studio.token if token is None else token}"
    request = urllib.request.Request(query, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_kernel_of_a_cpu_run_is_told_while_it_runs(feed: Feed) -> None:
    @tb.jit
    def layers(x: tb.Tensor, w: tb.Tensor) -> tb.Tensor:
        for _ in range(6):
            x = tb.tanh(x @ w)
        return x

    rng = np.random.default_rng(0)
    x, w = (tb.tensor(rng.standard_normal((700, 700)).astype(np.float32) * 0.05) for _ in range(2))
    want = layers(x, w).numpy()
    seen: set[str] = set()
    for _ in range(200):
        running = threading.Thread(target=layers, args=(x, w))
        running.start()
        while running.is_alive():
            seen.add(feed.snapshot()["kernel"])
        if len(seen - {""}) > 1:
            break
    told = [re.fullmatch(r"(.+), (\d+) of (\d+)", kernel) for kernel in seen - {""}]
    assert len(told) > 1 and all(m is not None and 1 <= int(m[2]) <= int(m[3]) for m in told)
    np.testing.assert_array_equal(layers(x, w).numpy(), want)
    kernels = feed.snapshot()["kernels"]
    assert {m[1] for m in told if m} <= {k["kernel"] for k in kernels}
    assert sum(k["share"] for k in kernels) == pytest.approx(1) and all(k["ms"] > 0 for k in kernels)


def test_nothing_is_noted_when_nobody_watches() -> None:
    with Feed().listening():
        pass
    assert watching.current is None


def test_steps_and_launches_are_heard(feed: Feed) -> None:
    cycles = work()
    state = feed.snapshot()
    assert state["curves"]["loss"]["points"] == [(1, 3.0), (2, 2.0), (3, 1.5)]
    assert state["doing"] == "epoch <b>1</b>" and state["cycles"] == cycles and state["launched"] == 1
    assert state["launches"][0]["kernel"] == "scale"
    assert "test_studio.py" in state["line"]


def test_nothing_is_heard_behind_the_end() -> None:
    with Feed().listening() as feed:
        pass
    work()
    assert feed.snapshot()["launched"] == 0 and not feed.snapshot()["curves"]


def test_curves_stay_short_and_cover_the_whole_run() -> None:
    curve = Curve()
    for n in range(10 * MOST):
        curve.add(float(n))
    steps = [step for step, _ in curve.points]
    assert MOST / 2 <= len(steps) <= MOST + 1 and steps == sorted(steps)
    assert steps[0] < 40 and steps[-1] > 9.9 * MOST and curve.last == 10 * MOST - 1
    assert all(value == step - 1 for step, value in curve.points)


def test_the_token_and_the_host_are_asked_for(served: Studio) -> None:
    assert served.address.startswith("http://127.0.0.1:")
    assert asked(served, "/state")[0] == 200
    for path in ("/", "/state", "/report"):
        assert asked(served, path, token="")[0] == 403
        assert asked(served, path, token=served.token[:-1])[0] == 403
        assert asked(served, path, host="evil.example")[0] == 403
    assert asked(served, "/report")[0] == 404 and asked(served, "/other")[0] == 404


def test_the_report_of_the_last_launch_is_served(served: Studio) -> None:
    cycles = work()
    status, text = asked(served, "/report")
    assert status == 200 and f"{cycles:,}" in text


def test_a_port_that_is_taken_is_named(served: Studio, feed: Feed) -> None:
    port = int(served.address.split(":")[2].split("/")[0])
    with pytest.raises(StateError, match=f"port {port} cannot be served"):
        Studio(feed, port)


def test_the_live_page_in_a_browser(served: Studio, browser: Browser) -> None:
    browser.problems.clear()
    browser.open(served.address)
    browser.wait("document.querySelector('#status') !== null")
    cycles = work()
    browser.wait("document.querySelectorAll('.live').length === 1")
    text = browser.text()
    assert "loss: 1.500" in text and f"{cycles:,}" in text and "epoch <b>1</b>" in text
    browser.picture(KEPT / "studio.png")
    served.feed.ended("done")
    browser.wait("document.querySelector('#status').innerText.includes('done')")
    assert not browser.problems


def test_a_script_is_run_and_seen(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom trilobite.framework.progress import Progress\n"
        "with Progress(False) as bar:\n    bar.start('x', 1)\n    bar.advance({'loss': 1.0})\n"
        "print('words', sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "trilobite", "studio", "--once", str(script), "--fast", "3"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, env={**os.environ, "COLUMNS": "200"}
    )
    assert done.returncode == 0, done.stderr
    assert "Open    http://127.0.0.1:" in done.stdout and "words ['--fast', '3']" in done.stdout
