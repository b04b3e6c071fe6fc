"""Chromium without a window, driven over a pipe by its DevTools protocol: for tests and pictures of pages.

Enters: the path of a page. Leaves: what its script answers, pictures, what its console said. Needs Chromium
and nothing else: `--remote-debugging-pipe` speaks JSON over two file descriptors.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe"
).split()
PATIENCE = 60.0  # seconds for one answer


class BrowserError(Exception):
    """The browser refused, or did not answer."""


class Browser:
    """One process with one page. `problems` gathers errors, warnings and requests to the network."""

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        if CHROMIUM is None:
            raise BrowserError("Chromium is not installed")
        self._profile = tempfile.mkdtemp(prefix="trilobite-browser-")
        down_read, self._down = os.pipe()
        self._up, up_write = os.pipe()
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={self._profile}", f"--window-size={width},{height}"]
        script = f'exec 3<&{down_read} 4>&{up_write}; exec "$@"'  # the protocol has two descriptors
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, "browser", *command, "about:blank"],
            pass_fds=(down_read, up_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down_read)
        os.close(up_write)
        self._number, self._rest, self._session = 0, b"", ""
        self.problems: list[str] = []
        self._loads = 0
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.resize(width, height)

    # -- the protocol ----------------------------------------------------------------------------------------

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._down, data) :]
        limit = time.monotonic() + PATIENCE
        while True:
            answer = self._next(limit, method)
            if answer.get("id") != number:
                self._note(answer)
                continue
            if "error" in answer:
                raise BrowserError(f"{method}: {answer['error']}")
            return answer["result"]

    def _next(self, limit: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._up], [], [], max(limit - time.monotonic(), 0))
            read = os.read(self._up, 1 << 20) if ready else b""
            if not read:
                raise BrowserError(f"no answer to {method} within {PATIENCE:.0f} s")
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        """What a page must not do is a problem; the rest is left."""
        method, told = event.get("method", ""), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(told["exceptionDetails"].get("exception", {}).get("description", told)))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console: {[a.get('value') for a in told['args']]}")
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", "http://127.0.0.1:")):
                self.problems.append(f"a request to {url}")

    # -- pages -----------------------------------------------------------------------------------------------

    def open(self, page: Path | str, fragment: str = "") -> float:
        """Loads a page from a file or an address; seconds until it was loaded and painted."""
        address = page if isinstance(page, str) else page.resolve().as_uri()
        if fragment:
            self._call("Page.navigate", url="about:blank")  # else only the fragment would change
            self._wait_load()
        began = time.monotonic()
        self._call("Page.navigate", url=f"{address}{fragment}")
        self._wait_load()
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - began

    def _wait_load(self) -> None:
        limit = time.monotonic() + PATIENCE
        while not self._loads:
            self._note(self._next(limit, "loading"))
        self._loads = 0

    def run(self, script: str) -> Any:
        """The value of an expression on the page; a promise is waited for."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(
                str(answer["exceptionDetails"].get("exception", {}).get("description", answer))
            )
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60.0) -> Any:
        """Until an expression is true."""
        limit = time.monotonic() + seconds
        while not (found := self.run(script)):
            if time.monotonic() > limit:
                raise BrowserError(f"{script} did not become true within {seconds} s")
            time.sleep(0.02)
        return found

    def text(self, selector: str = "body") -> str:
        found: str = self.run(f"document.querySelector({json.dumps(selector)}).innerText")
        return found

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str) -> None:
        """A key, as the focused element gets it from a keyboard."""
        typed = {"text": key} if len(key) == 1 else {}
        code = {"Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        for kind in ("keyDown", "keyUp"):
            more = typed if kind == "keyDown" else {}
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code.get(key, 0), **more
            )
        self.frame()

    def wheel(self, x: float, y: float, delta: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def frame(self) -> None:
        """Until the next picture is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def resize(self, width: int, height: int, phone: bool = False) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def dark(self, on: bool = True) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self._call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """Ends the process and removes its profile."""
        os.close(self._down)
        os.close(self._up)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
