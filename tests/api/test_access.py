"""Who is let in by the API: hosts, pages of other sites, the token, bodies, TLS elsewhere."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from cdc.api.bodies import MAX_BODY
from cdc.api.guard import (
    BodyTypeRefused,
    CrossSiteRefused,
    Guard,
    HostRefused,
    TokenMissing,
)
from cdc.base.errors import TidegateError
from cdc.server.listener import AddressNotPrivate, bind
from tests.api.server_process import CdcServer, run_cdc
from tests.servers import tls

_JSON = {"Content-Type": "application/json"}
GUARD = Guard.of("t" * 43, ["127.0.0.1", "cdc.example"])
HEAD = {"host": "127.0.0.1:8300", "authorization": f"Bearer {'t' * 43}"}


def refused(guard: Guard, method: str, path: str, **headers: str) -> type[TidegateError] | None:
    """What the guard says of a request with the token, over which ``headers`` win."""
    given = HEAD | {k.replace("_", "-"): v for k, v in headers.items()}
    try:
        guard.judge(method, path, given)
    except TidegateError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("127.0.0.1:8300", None),
        ("localhost", None),
        ("[::1]:8300", None),
        ("CDC.example:443", None),
        ("evil.example", HostRefused),
        ("127.0.0.1.evil.example:8300", HostRefused),
        ("10.0.0.7", HostRefused),
        ("", HostRefused),
    ],
)
def test_only_hosts_of_this_server_are_answered(
    host: str, error: type[TidegateError] | None
) -> None:
    assert refused(GUARD, "GET", "/api/v2/changefeeds", host=host) is error
    # Not even what needs no token: a rebound name would read it.
    assert refused(GUARD, "GET", "/metrics", host=host) is error


def test_a_server_on_all_addresses_is_asked_by_address_but_not_by_any_name() -> None:
    wide = Guard.of("t" * 43, ["0.0.0.0", "cdc.example"])
    assert refused(wide, "GET", "/metrics", host="10.0.0.7:8300") is None
    assert refused(wide, "GET", "/metrics", host="[fe80::1]:8300") is None
    assert refused(wide, "GET", "/metrics", host="evil.example") is HostRefused


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"origin": "http://127.0.0.1:8300"}, None),
        ({"origin": "http://127.0.0.1:3000"}, CrossSiteRefused),
        ({"origin": "http://evil.example"}, CrossSiteRefused),
        ({"origin": "null"}, CrossSiteRefused),
        ({"sec_fetch_site": "same-origin"}, None),
        ({"sec_fetch_site": "none"}, None),
        ({"sec_fetch_site": "cross-site"}, CrossSiteRefused),
        ({"sec_fetch_site": "same-site"}, CrossSiteRefused),
    ],
)
def test_pages_of_other_sites_are_refused(
    headers: dict[str, str], error: type[TidegateError] | None
) -> None:
    for method, path in (("GET", "/api/v2/changefeeds"), ("POST", "/api/v2/changefeeds/a/pause")):
        assert refused(GUARD, method, path, **headers) is error


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {'t' * 43}", "t" * 43])
def test_all_but_health_and_metrics_needs_the_token(given: str) -> None:
    for path in ("/api/v2/health", "/metrics", "/", "/console/main.js"):
        assert refused(GUARD, "GET", path, authorization=given) is None
        assert refused(GUARD, "POST", path, authorization=given) is TokenMissing
    for path in (
        "/api/v2/status",
        "/api/v2/openapi.json",
        "/api/v2/health/",
        "/console",
        "/console/none.js",
        "/api/v2/upstreams",
    ):
        assert refused(GUARD, "GET", path, authorization=given) is TokenMissing


def test_a_body_must_be_declared_as_json() -> None:
    path = "/api/v2/changefeeds/a/pause"
    assert refused(GUARD, "POST", path) is None
    assert refused(GUARD, "POST", path, content_length="2") is BodyTypeRefused
    assert refused(GUARD, "POST", path, transfer_encoding="chunked") is BodyTypeRefused
    for name in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; b=x"):
        assert refused(GUARD, "POST", path, content_type=name) is BodyTypeRefused
    good = {"content_type": "application/json; charset=utf-8", "content_length": "2"}
    assert refused(GUARD, "POST", path, **good) is None


def test_a_guard_does_not_show_its_token() -> None:
    assert "ttt" not in repr(GUARD)


def test_the_server_asks_the_guard(server: CdcServer) -> None:
    def codes(answer: httpx.Response) -> tuple[int, str]:
        return answer.status_code, answer.json().get("error_code", "")

    send = server.send
    assert codes(send("GET", "/api/v2/status", "")) == (401, "TG:ErrAPIUnauthorized")
    assert codes(send("GET", "/api/v2/status", "x" * 43)) == (401, "TG:ErrAPIUnauthorized")
    assert send("GET", "/api/v2/health", "").is_success
    assert send("GET", "/metrics", "").is_success
    evil = {"Host": "evil.example"}
    assert codes(send("GET", "/api/v2/status", headers=evil)) == (421, "TG:ErrAPIHostRefused")
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = send("POST", "/api/v2/changefeeds/none/pause", headers=headers)
        assert codes(answer) == (403, "TG:ErrAPICrossSite")
    plain = {"Content-Type": "text/plain"}
    answer = send("POST", "/api/v2/tso", content=b"{}", headers=plain)
    assert codes(answer) == (415, "TG:ErrAPIContentType")
    for path in ("/redoc", "/docs"):
        assert send("GET", path).status_code == 404


def test_a_body_has_a_limit_with_and_without_its_length(server: CdcServer) -> None:
    large = b'{"changefeed_id": "' + b"x" * MAX_BODY + b'"}'

    def chunks() -> object:
        for start in range(0, len(large), 1 << 20):
            yield large[start : start + (1 << 20)]

    for content in (large, chunks()):
        answer = server.send("POST", "/api/v2/changefeeds", content=content, headers=_JSON)
        assert answer.status_code == 413
        assert answer.json()["error_code"] == "TG:ErrAPIBodyTooLarge"


def test_the_command_line_of_the_servers_user_finds_the_token(
    server: CdcServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.cli("capture", "list").returncode == 0
    by_name = server.url.replace("127.0.0.1", "localhost")
    assert run_cdc("cli", "capture", "list", "--server", by_name).returncode == 0
    assert stat.S_IMODE((server.data_dir / "token").stat().st_mode) == 0o600
    # Another user has another home.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    done = server.cli("capture", "list")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrAPIUnauthorized] "), done.stderr
    file = server.data_dir / "token"
    words = ("capture", "list", "--server", server.url)
    assert run_cdc("cli", "--token-file", str(file), *words).returncode == 0
    monkeypatch.setenv("TIDEGATE_TOKEN", server.token)
    assert server.cli("capture", "list").returncode == 0
    for wrong in (tmp_path / "none", Path(__file__)):
        done = run_cdc("cli", "--token-file", str(wrong), *words)
        assert "TG:ErrTokenUnusable" in done.stderr
    done = run_cdc("cli", "--token-file", str(file), "capture", "list", "--server", "cdc.example")
    assert "is not sent over plain HTTP" in done.stderr


def test_beyond_this_machine_only_with_tls() -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(AddressNotPrivate):
            bind(host, 0, plain=True)
        bind(host, 0, plain=False).close()
    for host in ("127.0.0.1", "127.8.9.1", "localhost", "::1"):
        bind(host, 0, plain=True).close()


def test_https_with_client_certificates(tmp_path: Path) -> None:
    made = tls.make(tmp_path / "tls")
    own = ("--cert", str(made.server_cert), "--key", str(made.server_key))
    names = ("--ca", str(made.ca), "--cert-allowed-cn", "cdc-cli,tidegate")
    server = CdcServer(tmp_path / "data", *names, *own)
    try:
        server.start(ready=False)
        assert server.url.startswith("https://")
        words = ("capture", "list", "--server", server.url)
        client = ("--ca", str(made.ca), "--cert", str(made.cert), "--key", str(made.key))
        assert run_cdc("cli", *client, *words).returncode == 0
        # The server's own certificate is of the authority too, and has another name.
        for less in ((), client[:2], (*client[:2], *own)):
            done = run_cdc("cli", *less, *words)
            assert done.returncode == 1
            assert done.stderr.startswith("Error: [TG:ErrServerUnreachable]"), done.stderr
    finally:
        server.end()


def test_tls_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    command = [sys.executable, "-m", "cdc.cli.entry", "server", "--data-dir", str(tmp_path / "d")]
    for flags in (("--cert", missing), ("--cert", missing, "--key", missing)):
        done = subprocess.run(
            [*command, *flags], capture_output=True, text=True, env=os.environ, check=False
        )
        assert done.returncode == 1
        assert done.stderr.startswith("Error: [TG:ErrServerConfigInvalid] "), done.stderr
    assert not (tmp_path / "d").exists()
