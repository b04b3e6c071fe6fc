"""Every snippet of README and docs runs; and the tool that runs them sees what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.snippets import SnippetError, blocks, pages, run_page

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run(page: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tools.snippets", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr


def write(directory: Path, text: str) -> Path:
    page = directory / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_blocks_share_a_namespace_and_their_output_is_compared(tmp_path: Path) -> None:
    page = write(
        tmp_path,
        "```python\nx = 20\n```\ntext\n"
        "```python\nprint(x + 1)\nprint('a', 'b')\n```\n```text output\n21\na ...\n```\n",
    )
    assert run_page(page) == 2


def test_a_dataclass_and_a_function_find_their_module_and_source(tmp_path: Path) -> None:
    code = (
        "import dataclasses, inspect\n@dataclasses.dataclass\nclass Pair:\n    a: 'int'\n"
        "def double(x):\n    return x * 2\nprint(inspect.getsource(double).splitlines()[1].strip(), Pair(1))"
    )
    page = write(
        tmp_path, f"# A page\n\n```python\n{code}\n```\n```text output\nreturn x * 2 Pair(a=1)\n```\n"
    )
    assert run_page(page) == 1


def test_a_wrong_output_is_an_error_that_names_page_and_line(tmp_path: Path) -> None:
    page = write(tmp_path, "```python\nprint(2)\n```\n\n```text output\n3\n```\n")
    with pytest.raises(SnippetError) as caught:
        run_page(page)
    assert str(caught.value) == f"{page}:6: the page says\n3\nbut the code prints\n2\n"


def test_an_exception_names_the_line_of_the_page(tmp_path: Path) -> None:
    page = write(tmp_path, "one\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 5


def test_no_run_is_read_but_not_run(tmp_path: Path) -> None:
    assert run_page(write(tmp_path, "```python no-run\nraise SystemExit(1)\n```\n")) == 1
    with pytest.raises(SyntaxError):
        run_page(write(tmp_path, "```python no-run\ndef\n```\n"))


def test_snippets_write_into_a_directory_of_their_own(tmp_path: Path) -> None:
    run_page(write(tmp_path, "```python\nopen('left-behind', 'w').close()\n```\n"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.md"]
    assert not Path("left-behind").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python maybe\n1\n```\n", "a python block cannot be 'maybe'"),
        ("```text output\n1\n```\n", "no python block that runs stands before this output"),
        ("```python no-run\n1\n```\n```text output\n1\n```\n", "no python block that runs"),
        ("```python\n1\n", "this block is never closed"),
    ],
)
def test_malformed_pages_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SnippetError, match=message):
        run_page(write(tmp_path, text))


def test_longer_fences_and_indented_ones_hold_shorter_ones(tmp_path: Path) -> None:
    page = write(tmp_path, "````text\n```python\n1/0\n```\n````\n  ```python\n  if 1:\n      x = 1\n  ```\n")
    found = list(blocks(page))
    assert [block.info for block in found] == [("text",), ("python",)]
    assert found[1].text == "if 1:\n    x = 1\n"
    assert found[1].line == 7
