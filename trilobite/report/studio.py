"""`trilobite studio COMMAND ...`: the views of the report live, on this machine alone, while a command runs.

Enters: a command of `trilobite` or a Python script, with its words. Leaves: a page on the loopback address
whose token the terminal shows: training curves, the line that runs, launches with their cycles, and the
report of the last launch. Nothing is requested from elsewhere, and nobody without the token is answered.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from trilobite.base.errors import ArgumentError, StateError
from trilobite.report.feed import Feed
from trilobite.report.page import asset, digest, page_text
from trilobite.report.processor import processor_subject

HOST = "127.0.0.1"
SCRIPTS = ("elements.js", "tables.js", "studio.js")


class Studio:
    """A server of a feed. `address` has the token."""

    def __init__(self, feed: Feed, port: int = 0) -> None:
        self.feed, self.token = feed, secrets.token_urlsafe(24)
        try:
            self._server = ThreadingHTTPServer((HOST, port), self._handler())
        except OSError as error:
            raise StateError(
                f"port {port} cannot be served: {error}", remedy="leave --port out, or choose another"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/?token={self.token}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str) -> tuple[str, str] | None:
        """What is under a path: its kind and text."""
        if path == "/":
            return "text/html", live_page(self.token)
        if path == "/state":
            return "application/json", json.dumps(self.feed.snapshot())
        run = self.feed.last_run
        if path == "/report" and run is not None:
            return "text/html", page_text(f"{run.machine.name}: the last launch", [processor_subject(run)])
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        studio = self

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = "trilobite", ""

            def do_GET(self) -> None:
                address = urlsplit(self.path)
                given = parse_qs(address.query).get("token", [""])[0]
                port = studio._server.server_address[1]
                if self.headers.get("Host", "") not in (f"{HOST}:{port}", f"localhost:{port}"):
                    return self._send(403, "text/plain", "another host's name")
                if not hmac.compare_digest(given.encode(), studio.token.encode()):
                    return self._send(
                        403, "text/plain", "the address needs the token that the terminal shows"
                    )
                found = studio.answer(address.path)
                if found is None:
                    return self._send(404, "text/plain", "there is nothing here yet")
                return self._send(200, *found)

            def _send(self, status: int, kind: str, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                headers = {
                    "Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body)),
                    "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
                    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
                }  # fmt: skip
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Requests are nobody's news."""

        return Handler


def live_page(token: str) -> str:
    """The page that asks for the state again and again."""
    style = asset("page.css")
    script = '(function () {\n"use strict";\n' + "\n".join(asset(name) for name in SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; connect-src 'self'"
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>Trilobite studio</title><style>{style}</style></head>
<body data-token="{token}"><div id="page"></div><script>{script}</script></body></html>
"""


def studio(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="of the page; 0 takes one that is free")] = 0,
    once: Annotated[bool, typer.Option("--once", help="end with the command instead of serving on")] = False,
) -> None:
    """Watch a command while it runs: `trilobite studio digits --epochs 4`, `trilobite studio train.py`."""
    words = list(context.args)
    if not words:
        raise ArgumentError("trilobite studio without a command", expected="trilobite studio COMMAND ...")
    feed = Feed()
    served = Studio(feed, port)
    typer.echo(f"Open    {served.address}")
    try:
        with feed.listening():
            _run(words, feed)
        if not once:
            typer.echo("The command is done; the page stays until Ctrl-C.")
            threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo("")
    finally:
        served.close()


studio.context_settings = {"allow_extra_args": True, "ignore_unknown_options": True}  # type: ignore[attr-defined]


def _run(words: list[str], feed: Feed) -> None:
    how = "ended with an error"
    try:
        if words[0].endswith(".py"):
            _script(words)
        else:
            from trilobite.cli import COMMANDS
            from trilobite.cli.application import application

            application(COMMANDS)(words, standalone_mode=False)
        how = "done"
    finally:
        feed.ended(how)


def _script(words: list[str]) -> None:
    import runpy
    import sys

    before, sys.argv = sys.argv, words
    try:
        runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.argv = before
