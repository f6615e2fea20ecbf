"""A collector of OpenTelemetry's traces: OTLP over HTTP, JSON bodies."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class TraceCollector:
    """Keeps all spans that come, with their resource's attributes, and the headers of requests."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._take(self.path, dict(self.headers), json.loads(body))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> TraceCollector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _take(self, path: str, headers: dict[str, str], body: Any) -> None:
        assert path == "/v1/traces"
        self.headers.append(headers)
        for group in body["resourceSpans"]:
            about = attributes(group["resource"])
            for scope in group["scopeSpans"]:
                self.spans += [{**span, "resource": about} for span in scope["spans"]]

    def windows(self, feed: str) -> list[dict[str, Any]]:
        """The windows of a changefeed."""
        named = [span for span in list(self.spans) if span["name"] == "window"]
        return [w for w in named if attributes(w)["tidegate.changefeed"] == feed]

    def parts(self, span: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The spans right below one, by name."""
        return {s["name"]: s for s in list(self.spans) if s.get("parentSpanId") == span["spanId"]}


def attributes(thing: dict[str, Any]) -> dict[str, Any]:
    """Attributes by name."""
    return {a["key"]: next(iter(a["value"].values())) for a in thing["attributes"]}
