"""What somebody may try at the API who has no token, or a low one: each attempt is refused by name.

Sinks and upstreams as a way into the network are in ``test_egress``, what leaks in
``test_secrets``, roles at each route in ``test_tokens``.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from cdc.api import bodies
from tests.api.server_process import CdcServer

_JSON = {"Content-Type": "application/json"}


def _raw(server: CdcServer, *lines: str, body: bytes = b"") -> str:
    """Bytes as they are, to the server's port; the status line and head of its answer."""
    host, _, port = server.url.partition("://")[2].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.settimeout(10)
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found.decode("latin-1")


def _code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error_code"]


@pytest.fixture(scope="module")
def viewer(server: CdcServer) -> str:
    made = server.api("POST", "/tokens", {"name": "attacker", "role": "viewer"})
    return str(made.json()["token"])


def test_how_deep_brackets_stand() -> None:
    for body, deep in (
        (b"", 0),
        (b"{}", 1),
        (b'{"a": [1, {"b": []}], "c": [[]]}', 4),
        (b'{"a": "[[[[", "b\\"[": "\\\\", "c": [1]}', 2),
        (b'["[[[[', 1),
        (b'["\\', 1),
        (b"]]]][[", -1 + 0),
    ):
        assert max(bodies.depth(body), -1) == deep, body
    # Each byte is looked at once: of these, a search that began again at each quote took hours.
    for body in (b'"' + b'\\"' * 4_000_000, b'"' + b'\\"' * 4_000_000 + b"\\", b'"' * 8_000_000):
        assert bodies.depth(body) == 0


def _nested(kind: str, depth: int) -> bytes:
    left, right = {"list": ("[", "]"), "object": ('{"a":', "}"), "open": ("[", "")}[kind]
    middle = "1" if kind == "object" else ""
    return f'{{"replica_config": {{"sink": {left * depth}{middle}{right * depth}}}}}'.encode()


@pytest.mark.parametrize("kind", ["list", "object", "open"])
@pytest.mark.parametrize("depth", [50, 200, 900, 5_000, 100_000, 1_000_000])
def test_bodies_nested_in_themselves(server: CdcServer, kind: str, depth: int) -> None:
    content = _nested(kind, depth)
    for method, path in (
        ("POST", "/changefeeds"),
        ("PUT", "/changefeeds/none"),
        ("POST", "/tokens"),
    ):
        answer = server.send(method, f"/api/v2{path}", content=content, headers=_JSON)
        assert answer.status_code in (400, 404), (method, path, answer.text[:300])
        assert answer.json()["error_code"].startswith("TG:Err")
    assert server.api("GET", "/health").is_success


def test_bodies_that_are_no_json_of_ours(server: CdcServer) -> None:
    for content in (
        b"",
        b"\x00",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"x"',
        b"1" * 100_000,
        b'{"name": "a", "name": "b"',
        b'{"name": NaN}',
        b'{"name": 1e999}',
        b'{"name": "\\ud800"}',
        b'{"name": "\\u0000"}',
        b'{"__proto__": {"role": "admin"}}',
        b'{"name": {"$ne": ""}, "role": ["admin"]}',
    ):
        answer = server.send("POST", "/api/v2/tokens", content=content, headers=_JSON)
        assert answer.status_code == 400, (content[:40], answer.text[:300])
        assert answer.json()["error_code"].startswith("TG:Err")
    assert server.api("GET", "/health").is_success


TRAVERSALS = (
    "..", ".", "../../etc", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e", "....//....//etc",
    "a/../b", "..\\..\\etc", "a%00b", "a\x00b", "/etc/passwd", "C:\\x", "~root", "a\nb",
    "a;rm", "$(id)", "", "a" * 129,
)  # fmt: skip


@pytest.mark.parametrize("name", TRAVERSALS)
def test_names_that_lead_out_of_a_folder(server: CdcServer, name: str) -> None:
    """Names of upstreams become folders, those of changefeeds keys and transactional ids."""
    before = sorted(str(p) for p in server.data_dir.rglob("*") if "log" in str(p))
    uri = "mysql://root@127.0.0.1:1"
    upstream = server.api("POST", "/upstreams", {"name": name, "uri": uri})
    assert _code(upstream) == (400, "TG:ErrUpstreamNameInvalid")
    nodes = [{"name": name, "uri": uri}]
    node = server.api("POST", "/upstreams", {"name": "a", "kind": "shards", "nodes": nodes})
    assert _code(node) == (400, "TG:ErrNodesInvalid")
    if name:
        body = {"changefeed_id": name, "upstream": "none", "sink_uri": "blackhole://"}
        refused = server.api("POST", "/changefeeds", body)
        reasons = [reason["error_code"] for reason in refused.json()["reasons"]]
        assert refused.status_code == 400
        assert reasons == ["TG:ErrInvalidChangefeedID", "TG:ErrUpstreamNotFound"]
    token = server.api("POST", "/tokens", {"name": name, "role": "viewer"})
    assert token.status_code == 400
    assert sorted(str(p) for p in server.data_dir.rglob("*") if "log" in str(p)) == before


def test_paths_that_lead_to_files(server: CdcServer) -> None:
    for path in (
        "/console/../../app.py",
        "/console/..%2f..%2fapp.py",
        "/console/%2e%2e/serving.py",
        "/api/v2/docs/..%2f..%2f..%2fguard.py",
        "//etc/passwd",
        "/api/v2/../../etc/passwd",
        "/api/v2/changefeeds/..%2f..%2ftokens",
    ):
        said = _raw(server, f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close",
                    f"Authorization: Bearer {server.token}")  # fmt: skip
        assert said.startswith("HTTP/1.1 404"), (path, said[:200])
        assert "import" not in said
        assert "root:" not in said


def test_a_low_token_stays_low_whatever_is_said_beside_it(server: CdcServer, viewer: str) -> None:
    tricks = (
        {"X-HTTP-Method-Override": "GET"},
        {"X-Original-URL": "/api/v2/status"},
        {"X-Rewrite-URL": "/api/v2/status"},
        {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"},
        {"X-Role": "admin", "Role": "admin"},
        {"Cookie": f"token={server.token}"},
    )
    for headers in tricks:
        for how in ({}, {"params": {"token": server.token, "access_token": server.token}}):
            answer = server.send(
                "DELETE", "/api/v2/tokens/attacker", viewer, headers=headers, **how
            )
            assert _code(answer) == (403, "TG:ErrAPIForbidden")
            answer = server.send("GET", "/api/v2/audit", "", headers=headers, **how)
            assert _code(answer) == (401, "TG:ErrAPIUnauthorized")


def test_two_heads_that_disagree(server: CdcServer, viewer: str) -> None:
    """Whichever of two headers counts, a stranger's does not get through by the other."""
    own, evil = f"Authorization: Bearer {server.token}", "Host: evil.example"
    good = ("Host: 127.0.0.1", "Connection: close")
    for lines in (
        ("GET /api/v2/status HTTP/1.1", good[0], evil, good[1], own),
        ("GET /api/v2/status HTTP/1.1", evil, good[0], good[1], own),
        ("GET http://evil.example/api/v2/status HTTP/1.1", evil, good[1], own),
    ):
        said = _raw(server, *lines)
        assert said.split()[1] in ("400", "421"), said[:200]
    low = f"Authorization: Bearer {viewer}"
    for lines in ((low, own), (own, low)):
        said = _raw(server, "GET /api/v2/audit HTTP/1.1", *good, *lines)
        assert said.split()[1] in ("200", "400", "403")
        # What is let in had the admin's token; a stranger without it gains nothing.
    said = _raw(server, "GET /api/v2/audit HTTP/1.1", *good, low, low)
    assert said.split()[1] in ("400", "401", "403")
    smuggled = b"0\r\n\r\nGET /api/v2/audit HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    said = _raw(
        server, "POST /api/v2/tso HTTP/1.1", *good, low, "Content-Type: application/json",
        f"Content-Length: {len(smuggled)}", "Transfer-Encoding: chunked", body=smuggled,
    )  # fmt: skip
    assert said.count("HTTP/1.1 ") == 1, said
    for length in ("-1", "1e3", "0x10", "9" * 40, "1, 2"):
        said = _raw(
            server, "POST /api/v2/tso HTTP/1.1", *good, low, f"Content-Length: {length}",
            "Content-Type: application/json",
        )  # fmt: skip
        assert said.split()[1] in ("400", "413"), said[:200]


def test_answers_do_not_run_in_a_browser(server: CdcServer) -> None:
    script = "<img src=x onerror=alert(1)>"
    answer = server.api("POST", "/tso", {script: script})
    assert answer.headers["Content-Type"].startswith("application/json")
    answer = server.send("GET", f"/api/v2/changefeeds/{script}")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert json.loads(answer.text)["error_code"] == "TG:ErrChangeFeedNotExists"
    # No answer lets a page of another site read it.
    for given in (answer, server.send("OPTIONS", "/api/v2/status")):
        assert not [h for h in given.headers if h.lower().startswith("access-control-")]
