"""Requests that belong to another capture: which those are, and as whose they come there."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from cdc.api import errors
from cdc.api.forwarding import ForwardingMiddleware, where
from cdc.base.clock import SystemClock
from cdc.coord.contract import Delete, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo, FeedInfo, UpstreamInfo, UpstreamPlacement
from cdc.server.api_tokens import OWN, ApiRole, Caller
from cdc.server.peers import Peers
from cdc.server.settings import SecuritySettings
from tests.servers import tls
from tests.servers.process import free_port
from tests.waiting import until

KEYS = Keys()
ANN = Caller("ann", ApiRole.OPERATOR)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    yield made
    made.close()


@pytest.fixture
def peers(store: EmbeddedStore) -> Peers:
    """Capture ``a``; upstream ``u`` and its changefeed ``f`` are at ``b``."""
    upstream = UpstreamInfo(name="u", uri="mysql://h")
    placed = UpstreamPlacement(upstream="u", capture="b", number=1)
    feed = FeedInfo(id="f", upstream="u", sink_uri="kafka://h/t", start_ts=1)
    values = {
        KEYS.upstream_info("u"): upstream,
        KEYS.placement("u"): placed,
        KEYS.feed_info("f"): feed,
        KEYS.capture("a"): CaptureInfo(id="a", address="127.0.0.1:1", ready=True),
        KEYS.capture("b"): CaptureInfo(id="b", address="127.0.0.1:2", ready=True),
    }
    puts = [Put(key, value.model_dump_json().encode()) for key, value in values.items()]
    store.txn([], [*puts, Put(KEYS.owner, b"o")])
    return Peers(store, KEYS, "a", SecuritySettings(), SystemClock())


@pytest.mark.parametrize(
    ("method", "path", "body", "there"),
    [
        ("GET", "/changefeeds", None, ""),
        ("GET", "/changefeeds/f", None, ""),
        ("GET", "/changefeeds/f/status", None, ""),
        ("GET", "/changefeeds/f/synced", None, "b"),
        ("GET", "/changefeeds/f/verifications/3", None, "b"),
        ("POST", "/changefeeds/f/pause", None, "b"),
        ("DELETE", "/changefeeds/f", None, "b"),
        ("POST", "/changefeeds/unknown/pause", None, ""),
        ("POST", "/changefeeds", {"upstream": "u"}, "b"),
        ("POST", "/changefeeds", {"upstream": "unknown"}, ""),
        ("POST", "/changefeeds", {"upstream": 7}, ""),
        ("POST", "/changefeeds", [], ""),
        ("POST", "/filter/explain", {"upstream": "u"}, "b"),
        ("GET", "/processors/f/b", None, "b"),
        ("GET", "/upstreams/u", None, ""),
        ("PUT", "/upstreams/u", {}, "b"),
        ("POST", "/upstreams/u/nodes", {"name": "n"}, "b"),
        ("DELETE", "/upstreams/u/nodes/n", None, "b"),
        ("POST", "/upstreams/u/move", {"capture_id": "a"}, ""),
        # Whoever has the name refuses it; a new one goes to who has nothing.
        ("POST", "/upstreams", {"name": "u"}, "b"),
        ("POST", "/upstreams", {"name": "new"}, "a"),
        ("PUT", "/captures/b/drain", None, "b"),
        ("POST", "/owner/resign", None, "o"),
        ("POST", "/tokens", {"name": "x"}, ""),
    ],
)
def test_where_a_request_belongs(
    peers: Peers, method: str, path: str, body: Any, there: str
) -> None:
    given = b"" if body is None else json.dumps(body).encode()
    assert where(method, f"/api/v2{path}", given, peers) == there


def test_a_forwarded_token_says_who_asks_and_cannot_be_made_by_others(
    store: EmbeddedStore, peers: Peers
) -> None:
    other = Peers(store, KEYS, "b", SecuritySettings(), SystemClock())
    token = peers.token(ANN)
    assert other.caller(token) == ANN
    assert other.caller(peers.token(OWN)) == OWN
    head, text, signed = token.split(".")
    another = "1" if signed[-1] == "0" else "0"
    assert other.caller(f"{head}.{text}.{signed[:-1]}{another}") is None
    assert other.caller(f"{head}.{peers.token(OWN).split('.')[1]}.{signed}") is None
    for wrong in ("", "tgf.", "tgf..", "tgf.x.y", "tgf.é.y", "tgt_ann_x"):
        assert other.caller(wrong) is None

    class Later(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + 301_000

    assert Peers(store, KEYS, "b", SecuritySettings(), Later()).caller(token) is None


class Answering:
    """A capture that answers what came, on a port of its own."""

    def __init__(self, peers: Peers, **tls: Any) -> None:
        self.port = free_port()

        async def echo(request: Request) -> Response:
            caller = peers.caller(request.headers["authorization"].removeprefix("Bearer "))
            came = {
                "who": caller.name if caller else None,
                "role": str(caller.role) if caller else None,
                "path": request.url.path,
                "query": request.url.query,
                "body": (await request.body()).decode(),
                "match": request.headers.get("if-match"),
                "forwarded": request.headers.get("tidegate-forwarded"),
            }
            return JSONResponse(came, 202, {"ETag": '"7"'})

        app = Starlette(routes=[Route("/{path:path}", echo, methods=["GET", "POST", "PUT"])])
        config = uvicorn.Config(app, port=self.port, log_config=None, lifespan="off", **tls)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started, "it answers")

    def stop(self) -> None:
        """End it."""
        self._server.should_exit = True
        self._thread.join()


def _client(peers: Peers) -> TestClient:
    async def here(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"").decode()
        await JSONResponse({"here": body})(scope, receive, send)

    inner = ForwardingMiddleware(here, peers, errors.answer)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["caller"] = ANN
        await inner(scope, receive, send)

    return TestClient(cast(ASGIApp, guarded), raise_server_exceptions=False)


def _at(store: EmbeddedStore, port: int) -> None:
    info = CaptureInfo(id="b", address=f"127.0.0.1:{port}", ready=True)
    store.txn([], [Put(KEYS.capture("b"), info.model_dump_json().encode())])


def test_what_is_forwarded_comes_whole_and_as_its_senders(
    store: EmbeddedStore, peers: Peers
) -> None:
    answering = Answering(peers)
    try:
        _at(store, answering.port)
        client = _client(peers)
        head = {"If-Match": '"5"', "Authorization": "Bearer mine", "Origin": "http://testserver"}
        found = client.put("/api/v2/changefeeds/f?a=%2F1", content=b'{"x": 1}', headers=head)
        assert found.status_code == 202
        assert found.headers["etag"] == '"7"'
        assert found.json() == {
            "who": "ann",
            "role": "operator",
            "path": "/api/v2/changefeeds/f",
            "query": "a=%2F1",
            "body": '{"x": 1}',
            "match": '"5"',
            "forwarded": "1",
        }
        # What was forwarded here, and what is ours, is answered here, with its body.
        once = client.put(
            "/api/v2/changefeeds/f", content=b"x", headers={"tidegate-forwarded": "1"}
        )
        assert once.json() == {"here": "x"}
        assert client.post("/api/v2/changefeeds/g/pause", content=b"y").json() == {"here": "y"}
    finally:
        answering.stop()


@pytest.mark.parametrize("mutual", [True, False])
def test_captures_speak_tls_where_the_api_does(
    store: EmbeddedStore, peers: Peers, tmp_path: Path, mutual: bool
) -> None:
    files = tls.make(tmp_path / "tls")
    # Without an authority of clients its own certificate is what a capture knows the others by.
    cert, key = (files.server_cert, files.server_key) if mutual else tls.self_signed(tmp_path)
    security = SecuritySettings(ca_path=files.ca if mutual else None, cert_path=cert, key_path=key)
    ours = Peers(store, KEYS, "a", security, SystemClock())
    clients = {"ssl_ca_certs": str(files.ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    answering = Answering(
        ours, ssl_certfile=str(cert), ssl_keyfile=str(key), **(clients if mutual else {})
    )
    try:
        _at(store, answering.port)
        found = _client(ours).post("/api/v2/changefeeds/f/pause", content=b"y")
        assert (found.status_code, found.json()["who"]) == (202, "ann")
        # Who has another certificate is none of us.
        stranger = tls.make(tmp_path / "others")
        theirs = SecuritySettings(
            ca_path=stranger.ca, cert_path=stranger.server_cert, key_path=stranger.server_key
        )
        other = Peers(store, KEYS, "a", theirs, SystemClock())
        refused = _client(other).post("/api/v2/changefeeds/f/pause")
        assert refused.json()["error_code"] == "TG:ErrCaptureUnreachable"
    finally:
        answering.stop()


def test_one_that_does_not_answer_is_not_waited_for_beyond_its_session(
    store: EmbeddedStore, peers: Peers
) -> None:
    with socket.socket() as frozen:
        frozen.bind(("127.0.0.1", 0))
        frozen.listen()
        _at(store, frozen.getsockname()[1])
        gone = threading.Timer(0.3, lambda: store.txn([], [_gone()]))
        gone.start()
        found = _client(peers).post("/api/v2/changefeeds/f/pause")
        gone.join()
    assert found.status_code == 503
    assert found.json()["error_code"] == "TG:ErrCaptureUnreachable"
    # It is about to be placed anew: until then whoever is asked says what it can.
    assert _client(peers).post("/api/v2/changefeeds/f/pause").json() == {"here": ""}


def _gone() -> Delete:
    return Delete(KEYS.capture("b"))
