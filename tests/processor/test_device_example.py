"""The example in the docstring of `processor/device.py` runs."""

from __future__ import annotations

from textwrap import dedent

import pytest

from trilobite.processor import Device, device


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = device.__doc__ or ""
    code = dedent(text[text.index("    dev = Device") : text.index("Enters:")])
    names: dict[str, object] = {"Device": Device}
    exec(compile(code, "the example of device.py", "exec"), names)
    shown = capsys.readouterr().out
    assert shown.startswith("[0.5, 1.0, 1.5, 2.0] ") and int(shown.split("] ")[1].split()[0]) > 0
