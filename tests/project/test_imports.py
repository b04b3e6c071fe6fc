"""What `import trilobite` loads, and that the import contracts would notice a breach."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "llvmlite onnx onnxruntime typer click rich PIL yaml safetensors torch jax tensorflow sklearn scipy "
    "multiprocessing concurrent asyncio sqlite3 unittest pytest hypothesis"
).split()


def loaded(statement: str) -> set[str]:
    """The modules in a fresh process after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_heavy() -> None:
    # What NumPy needs is paid for in any case.
    found = loaded("import trilobite\ntrilobite.tensor") - loaded("import numpy, ml_dtypes")
    assert sorted(found.intersection(HEAVY)) == []


def test_the_command_line_loads_a_room_only_when_it_is_asked_for() -> None:
    found = loaded("import trilobite.cli")
    assert "typer" not in found
    shown = loaded(
        "from trilobite.cli import COMMANDS\n"
        "from trilobite.cli.application import application\n"
        "application(COMMANDS)"
    )
    assert "typer" in shown
    assert not shown & {"trilobite.cli.info", "trilobite.apps", "llvmlite", "PIL"}


PACKAGE = {
    "base/__init__.py": "",
    "native/__init__.py": "import trilobite.base\nimport llvmlite.binding\n",
    "ir/__init__.py": "import trilobite.base\n",
    "processor/__init__.py": "import trilobite.native\n",
    "processor/lang.py": "import trilobite.processor.sim\n",
    "processor/sim.py": "import trilobite.processor.isa\n",
    "processor/isa.py": "",
    "framework/jit.py": "import trilobite.framework.dispatch\n",
    "framework/dispatch.py": "import trilobite.framework.recordings\n",
    "framework/recordings.py": "import trilobite.framework.tensor\n",
    "framework/tensor.py": "",
    "compiler/__init__.py": "import trilobite.ir\n",
    "compiler/graph/__init__.py": "",
    "compiler/program/__init__.py": "import trilobite.compiler.graph\n",
    "compiler/targets/__init__.py": "",
    "compiler/targets/contract.py": "import trilobite.compiler.program\n",
    "compiler/targets/registry.py": "import trilobite.compiler.targets.contract\n",
    "compiler/targets/reference.py": "import trilobite.compiler.targets.contract\n",
    "compiler/targets/cpu/__init__.py": "import trilobite.compiler.targets.contract\n",
    "compiler/targets/dlp/__init__.py": "import trilobite.processor\n",
    "compiler/targets/dlp/kernels.py": "",
    "compiler/targets/dlp/network.py": "import trilobite.compiler.targets.dlp.kernels\n",
    "framework/__init__.py": "import trilobite.compiler.targets.registry\n",
    "compiler/tools/__init__.py": "import trilobite.compiler.targets.registry\n",
    "zoo/__init__.py": "",
    "inference/__init__.py": "",
    "inference/model.py": "",
    "inference/session.py": "import trilobite.inference.model\n",
    "cluster/__init__.py": "",
    "cluster/mpi.py": "",
    "cluster/zero.py": "import trilobite.cluster.mpi\n",
    "report/__init__.py": "import trilobite.compiler.targets.registry\n",
    "apps/__init__.py": "",
    "cli/__init__.py": "import trilobite.framework\n",
    "cli/chips.py": "import trilobite.processor\n",
    "__init__.py": "import trilobite.framework\n",
}
BREACHES = {
    "base imports a lobe": ("base/__init__.py", "import trilobite.ir"),
    "ir knows the processor": ("ir/__init__.py", "import trilobite.processor"),
    "the processor knows ir": ("processor/__init__.py", "def f():\n    import trilobite.ir"),
    "the processor knows the compiler": ("processor/__init__.py", "import trilobite.compiler"),
    "the compiler knows the framework": ("compiler/__init__.py", "import trilobite.framework"),
    "a pass knows the processor": ("compiler/graph/passes.py", "import trilobite.processor"),
    "a pass knows a target": ("compiler/graph/passes.py", "import trilobite.compiler.targets.cpu"),
    "a pass knows programs": ("compiler/graph/passes.py", "def f():\n    import trilobite.compiler.program"),
    "a plan knows a target": ("compiler/program/plan.py", "import trilobite.compiler.targets.contract"),
    "targets know each other": ("compiler/targets/dlp/tiles.py", "import trilobite.compiler.targets.cpu"),
    "the contract knows a target": ("compiler/targets/contract.py", "import trilobite.compiler.targets.cpu"),
    "the framework knows a target": (
        "framework/jit.py",
        "def f():\n    import trilobite.compiler.targets.cpu",
    ),
    "the simulator knows languages": ("processor/sim.py", "import trilobite.processor.lang"),
    "the table of instructions knows the simulator": ("processor/isa.py", "import trilobite.processor.sim"),
    "a tensor knows jit": ("framework/tensor.py", "def f():\n    import trilobite.framework.jit"),
    "a recording knows who runs it": ("framework/recordings.py", "import trilobite.framework.dispatch"),
    "a page knows a target": ("report/page.py", "def f():\n    import trilobite.compiler.targets.dlp"),
    "an application knows a target": ("apps/style.py", "import trilobite.compiler.targets.cpu"),
    "a tool knows a target": ("compiler/tools/levels.py", "import trilobite.compiler.targets.cpu"),
    "the cpu knows the processor": ("compiler/targets/cpu/emit.py", "import trilobite.processor"),
    "the framework knows the processor": ("framework/__init__.py", "import trilobite.processor"),
    "a model file knows the session": (
        "inference/model.py",
        "def f():\n    import trilobite.inference.session",
    ),
    "a kernel of the chip knows the network": (
        "compiler/targets/dlp/kernels.py",
        "import trilobite.compiler.targets.dlp.network",
    ),
    "a transport knows a strategy": ("cluster/mpi.py", "import trilobite.cluster.zero"),
    "llvmlite outside native": ("compiler/targets/cpu/emit.py", "def f():\n    from llvmlite import ir"),
    "torch": ("framework/__init__.py", "def f():\n    import torch"),
    "jax in a submodule": ("compiler/targets/dlp/tiles.py", "import jax.numpy"),
    "pickle": ("framework/weights.py", "def f():\n    import pickle"),
    "a room that nobody placed": ("attic/__init__.py", ""),
}


LINT = "from importlinter.cli import lint_imports_command\nlint_imports_command()"


def contracts(
    directory: Path, root: Path, breach: tuple[str, str] | None
) -> subprocess.CompletedProcess[str]:
    """Checks the project's own contracts on a small package of the same shape."""
    package = {**PACKAGE}
    if breach is not None:
        package[breach[0]] = package.get(breach[0], "") + breach[1] + "\n"
    for name, text in package.items():
        path = directory / "trilobite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # The small package, not the installed one, must be found first.
    code = f"import sys; sys.path.insert(0, {str(directory)!r})\n" + LINT
    command = [sys.executable, "-c", code, "--no-cache", "--config", str(root / "pyproject.toml")]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


def test_the_contracts_allow_the_drawn_arrows(tmp_path: Path, root: Path) -> None:
    done = contracts(tmp_path, root, None)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", BREACHES)
def test_the_contracts_notice_a_breach(tmp_path: Path, root: Path, name: str) -> None:
    done = contracts(tmp_path, root, BREACHES[name])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_rooms_of_the_framework_open_under_the_names_of_the_package() -> None:
    found = loaded(
        "import trilobite.nn.functional as F, trilobite.optim as optim\n"
        "import trilobite as tb\n"
        "assert F is tb.nn.functional and optim is tb.optim\n"
        "assert tb.nn.__spec__.name == tb.nn.__name__ == 'trilobite.framework.nn'"
    )
    assert "trilobite.nn" in found
    with pytest.raises(AssertionError, match=r"No module named 'trilobite\.absent'"):
        loaded("import trilobite.absent")


def test_names_in_texts_lead_to_no_target_either(root: Path) -> None:
    """Tables that import by name pass the contracts by: they name no target's folder but for the schedules,
    which `tb.schedules` offers, and a target is known by its registry.
    """
    inside = re.compile(r'"trilobite\.compiler\.targets\.(?:cpu|dlp|reference)[\w.]*"')
    found = {
        str(file.relative_to(root)): inside.findall(file.read_text())
        for file in (root / "trilobite").rglob("*.py")
        if "compiler/targets" not in file.as_posix()
    }
    named = {file: texts for file, texts in found.items() if texts}
    assert named == {"trilobite/framework/namespace.py": ['"trilobite.compiler.targets.cpu.schedules"']}
