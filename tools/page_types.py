"""Types of the report page's script: TypeScript's checker over the JSDoc of `trilobite/report/assets`.

Enters: `fetch DIRECTORY` brings the checker there, pinned by hash; `check DIRECTORY` runs it. Leaves: what it
found. The checker travels in an npm package, of which nothing but the compiler's own files is unpacked; node
runs it. Nothing of it is part of the project or of its pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.fetch_data import NotFetched, check_hash, download

PACKAGE = "typescript@5.9.3"
SHA512 = "jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw=="
ASSETS = Path(__file__).resolve().parents[1] / "trilobite" / "report" / "assets"
OPTIONS = "--noEmit --allowJs --checkJs --strict --target es2022 --lib es2022,dom,dom.iterable".split()


def checker(data: Path) -> Path:
    return data / "typescript" / "tsc.js"


def fetch(data: Path) -> str:
    """Brings the checker to `data`/typescript and says in one line what happened."""
    data = data.absolute()
    if checker(data).is_file():
        return f"data: TypeScript's checker is in {data / 'typescript'}"
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data, prefix="fetch-") as workspace:
        try:
            archive = download(Path(workspace), PACKAGE)
        except NotFetched as reason:
            return f"data: without TypeScript's checker ({reason}); the page's script is not type-checked"
        check_hash(archive, PACKAGE, SHA512)
        unpack(archive, Path(workspace) / "typescript")
        shutil.rmtree(data / "typescript", ignore_errors=True)
        os.replace(Path(workspace) / "typescript", data / "typescript")
    return f"data: fetched TypeScript's checker into {data / 'typescript'}"


def unpack(archive: Path, directory: Path) -> None:
    """The compiler and its descriptions of the language and the browser, without folders."""
    directory.mkdir()
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed.getmembers():
            name = member.name.removeprefix("package/lib/")
            wanted = name in ("tsc.js", "_tsc.js") or (name.startswith("lib.") and name.endswith(".d.ts"))
            source = packed.extractfile(member) if wanted and "/" not in name else None
            if source is not None:
                with source, (directory / name).open("wb") as target:
                    shutil.copyfileobj(source, target)


def check(data: Path, scripts: Path = ASSETS) -> str:
    """What the checker says of all scripts together; nothing if all is well."""
    node = shutil.which("node")
    if node is None or not checker(data).is_file():
        raise NotFetched(
            "node is not installed" if node is None else f"no checker in {data}; make data fetches it"
        )
    command = [node, str(checker(data.absolute())), *OPTIONS, *sorted(str(p) for p in scripts.glob("*.js"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout if done.returncode else ""


if __name__ == "__main__":
    place = Path(sys.argv[2] if len(sys.argv) > 2 else ".data")
    said = fetch(place) if sys.argv[1:2] == ["fetch"] else check(place)
    print(said) if said else None
    sys.exit(1 if said and sys.argv[1:2] == ["check"] else 0)
