"""Tokens with roles: who may do what, for how long, and what is kept of them."""

from __future__ import annotations

import hmac
import itertools
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from cdc.api import roles
from cdc.api.app import make
from cdc.api.guard import Guard, RoleTooLow, TokenMissing
from cdc.base import own_token
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.server.api_tokens import OWN, ApiRole, ApiTokens, Caller, TokenExists, TokenNotFound
from tests.api.server_process import CdcServer, run_cdc

KEYS = Keys()
# What no operator may touch, said again in other words than the table's.
_ADMINS = re.compile(r"/api/v2/(audit|tokens|upstreams|log|owner|captures|unsafe)\b")
# Questions that have a body.
_ASKS = {f"/api/v2/{n}" for n in ("tso", "filter/explain", "verify_table", "get_all_tables")}
_OPEN = {"/api/v2/health", "/api/v2/ready", "/metrics"}


class SetClock:
    """A clock that stands until it is moved."""

    ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(tmp_path: Path, clock: SetClock) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "meta.db", clock)
    yield made
    made.close()


@pytest.fixture
def tokens(store: EmbeddedStore, clock: SetClock) -> ApiTokens:
    return ApiTokens(store, KEYS, clock)


def _app_routes() -> set[tuple[str, str]]:
    found = roles.routes(make(MagicMock(), MagicMock()))
    return {("GET" if method == "HEAD" else method, path) for method, path in found}


def test_every_route_has_a_role_and_every_role_a_route() -> None:
    assert _app_routes() == roles.ROUTES.keys()


def test_an_application_with_a_route_that_has_no_role_does_not_start() -> None:
    with pytest.raises(ValueError, match="/api/v2/new"):
        roles.check([("GET", "/api/v2/status"), ("POST", "/api/v2/new")])


def test_roles_are_as_promised() -> None:
    for (method, path), role in roles.ROUTES.items():
        changes = method != "GET" and path not in _ASKS
        if changes or path.startswith(("/api/v2/tokens", "/api/v2/audit", "/api/v2/unsafe")):
            assert role == (ApiRole.ADMIN if _ADMINS.match(path) else ApiRole.OPERATOR), path
        elif "verifications" not in path:
            assert role == ApiRole.VIEWER, path


def test_the_guard_asks_the_role_of_the_path_as_it_was_sent() -> None:
    guard = Guard.of("t" * 43, ["127.0.0.1"])

    def judged(role: ApiRole, method: str, path: str) -> object:
        head = {"host": "127.0.0.1", "authorization": "Bearer x"}
        try:
            return guard.judge(method, path, head, lambda _: Caller("ann", role))
        except RoleTooLow as error:
            return str(error)

    viewer = Caller("ann", ApiRole.VIEWER)
    assert judged(ApiRole.VIEWER, "GET", "/api/v2/changefeeds/a") == viewer
    assert judged(ApiRole.VIEWER, "HEAD", "/api/v2/tokens") != viewer
    assert judged(ApiRole.VIEWER, "GET", "/api/v2/nothing") == viewer
    said = judged(ApiRole.VIEWER, "POST", "/api/v2/changefeeds/a b/pause")
    assert "needs the role operator, the token has viewer" in str(said)
    said = judged(ApiRole.OPERATOR, "DELETE", "/api/v2/upstreams/main")
    assert "needs the role admin, the token has operator" in str(said)


def test_a_token_leads_to_its_role_and_nothing_else_does(
    tokens: ApiTokens, store: EmbeddedStore
) -> None:
    made, kept = tokens.create("ann", ApiRole.OPERATOR, None, "bob")
    other, _ = tokens.create("ann-2", ApiRole.VIEWER, None, "bob")
    assert tokens.caller(made) == Caller("ann", ApiRole.OPERATOR)
    assert tokens.caller(other) == Caller("ann-2", ApiRole.VIEWER)
    for wrong in (
        "",
        made[:-1],
        made + "x",
        made + "\n",
        made.replace("ann", "ann-2"),
        made.replace("ann", "eve"),
        kept.digest,
        f"tgt_ann_{kept.digest[:43]}",
        f"tgt_../../owner_{'x' * 43}",
    ):
        assert tokens.caller(wrong) is None, wrong
    # The command line takes it from a file.
    secret = made.removeprefix("tgt_ann_")
    assert len(secret) == 43
    for entry in store.range("")[1]:
        assert secret.encode() not in entry.value
    assert kept.digest not in repr(kept)


def test_revoked_is_at_once_and_everywhere_and_a_new_one_of_the_name_is_another(
    tokens: ApiTokens, store: EmbeddedStore, clock: SetClock
) -> None:
    elsewhere = ApiTokens(store, KEYS, clock)
    old, _ = tokens.create("ann", ApiRole.ADMIN, None, "bob")
    with pytest.raises(TokenExists):
        elsewhere.create("ann", ApiRole.VIEWER, None, "bob")
    assert elsewhere.caller(old) == Caller("ann", ApiRole.ADMIN)
    tokens.revoke("ann")
    assert elsewhere.caller(old) is None
    with pytest.raises(TokenNotFound):
        elsewhere.revoke("ann")
    new, _ = elsewhere.create("ann", ApiRole.VIEWER, None, "bob")
    assert tokens.caller(old) is None
    assert tokens.caller(new) == Caller("ann", ApiRole.VIEWER)


def test_expired_is_at_its_millisecond(tokens: ApiTokens, clock: SetClock) -> None:
    made, kept = tokens.create("ann", ApiRole.VIEWER, 60, "bob")
    clock.ms += 59_999
    assert tokens.caller(made) is not None
    clock.ms += 1
    assert tokens.caller(made) is None
    assert tokens.expired(kept)


def test_another_cluster_in_the_same_store_does_not_know_them(
    tokens: ApiTokens, store: EmbeddedStore, clock: SetClock
) -> None:
    made, _ = tokens.create("ann", ApiRole.ADMIN, None, "bob")
    assert ApiTokens(store, Keys("other"), clock).caller(made) is None


@pytest.mark.parametrize("change", [{"role": "root"}, {"role": "ADMIN"}, {"format": 99}])
def test_what_a_newer_version_has_written_lets_nobody_in(
    tokens: ApiTokens, store: EmbeddedStore, change: dict[str, Any]
) -> None:
    made, kept = tokens.create("ann", ApiRole.VIEWER, None, "bob")
    value = json.dumps(json.loads(kept.model_dump_json()) | change).encode()
    store.txn([], [Put(KEYS.token("ann"), value)])
    assert tokens.caller(made) is None
    tokens.revoke("ann")
    assert tokens.all() == []


def test_tokens_are_compared_in_constant_time_for_names_that_nobody_has_too(
    tokens: ApiTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = tokens.create("ann", ApiRole.VIEWER, None, "bob")
    compare = hmac.compare_digest
    lengths: list[tuple[int, int]] = []

    def seen(a: str, b: str) -> bool:
        lengths.append((len(a), len(b)))
        return compare(a, b)

    monkeypatch.setattr(hmac, "compare_digest", seen)
    for given in (made, f"tgt_ann_{'x' * 43}", f"tgt_eve_{'x' * 43}"):
        tokens.caller(given)
    assert lengths == [(64, 64)] * 3


def test_the_own_token_is_asked_before_the_store() -> None:
    def broken(_: str) -> None:
        raise TokenMissing("asked")

    guard = Guard.of("t" * 43, ["127.0.0.1"])
    head = {"host": "127.0.0.1", "authorization": f"Bearer {'t' * 43}"}
    assert guard.judge("GET", "/api/v2/status", head, broken) == OWN


def _made(server: CdcServer, name: str, role: str, **more: Any) -> str:
    answer = server.api("POST", "/tokens", {"name": name, "role": role} | more)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return str(answer.json()["token"])


def test_no_role_does_more_than_it_may(server: CdcServer) -> None:
    """Each role at each route of a real server, without bodies: who may is told what is wrong."""
    given = {role: _made(server, f"esc-{role}", str(role)) for role in ApiRole}
    for (method, path), role in itertools.product(roles.ROUTES, ApiRole):
        answer = server.send(method, re.sub(r"\{\w+\}", "none", path), given[role])
        if role >= roles.ROUTES[method, path] or path in _OPEN:
            assert answer.status_code not in (401, 403), (role, method, path, answer.text)
        else:
            assert answer.status_code == 403, (role, method, path, answer.text)
            body = answer.json()
            assert body["error_code"] == "TG:ErrAPIForbidden"
            assert f"needs the role {roles.ROUTES[method, path]}" in body["error_msg"]
    for detour in ("/api/v2/tokens/", "/api/v2//tokens", "/api/v2/x/../tokens", "/api/v2/%74okens"):
        answer = server.send("GET", detour, given[ApiRole.VIEWER])
        assert not answer.is_success, (detour, answer.text)
    # Nor by giving itself another role.
    body = {"name": "esc-more", "role": "admin"}
    assert (
        server.send("POST", "/api/v2/tokens", given[ApiRole.OPERATOR], json=body).status_code == 403
    )
    assert "esc-more" not in [t["name"] for t in server.api("GET", "/tokens").json()["items"]]


def test_a_token_that_is_revoked_or_expired_is_as_a_wrong_one(server: CdcServer) -> None:
    short = _made(server, "short", "viewer", expires_in_s=1)
    gone = _made(server, "gone", "viewer")
    made_s = time.monotonic()
    for given in (short, gone):
        assert server.send("GET", "/api/v2/status", given).is_success
    assert server.api("DELETE", "/tokens/gone").is_success
    assert server.api("DELETE", "/tokens/gone").status_code == 404
    time.sleep(max(0.0, 1.05 - (time.monotonic() - made_s)))
    for given in (short, gone):
        answer = server.send("GET", "/api/v2/status", given)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json()["error_code"] == "TG:ErrAPIUnauthorized"
    assert server.api("POST", "/tokens", {"name": "short", "role": "viewer"}).status_code == 409


def test_the_command_line_makes_lists_and_revokes_them(server: CdcServer, tmp_path: Path) -> None:
    words = ("--name", "cli-ann", "--role", "operator", "--expires", "30d")
    done = server.cli("token", "create", *words)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "ann.token"
    file.write_text(done.stdout)
    assert own_token.read(file).startswith("tgt_cli-ann_")
    listed = server.cli("token", "list")
    assert re.search(r"^cli-ann +operator +\S+ \S+ +\(data directory\) +\S+", listed.stdout, re.M)
    assert own_token.read(file) not in listed.stdout
    as_ann = ("cli", "--token-file", str(file))
    here = ("--server", server.url)
    assert run_cdc(*as_ann, "changefeed", "list", *here).returncode == 0
    done = run_cdc(*as_ann, "token", "list", *here)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrAPIForbidden] token cli-ann: "), done.stderr
    assert server.cli("token", "revoke", "cli-ann").returncode == 0
    done = run_cdc(*as_ann, "changefeed", "list", *here)
    assert "TG:ErrAPIUnauthorized" in done.stderr
    done = server.cli("token", "create", "--name", "x", "--role", "viewer", "--expires", "soon")
    assert "TG:ErrDurationInvalid" in done.stderr


def test_a_restart_keeps_tokens_and_the_data_directory_no_secret(tmp_path: Path) -> None:
    server = CdcServer(tmp_path / "data")
    try:
        server.start(ready=False)
        made = _made(server, "ann", "viewer")
        server.stop(signal.SIGKILL)
        server.start(ready=False)
        assert server.send("GET", "/api/v2/status", made).is_success
        secret = made.removeprefix("tgt_ann_")
        files = [f for f in [*server.data_dir.rglob("*"), server.log] if f.is_file()]
        assert any(b"ann" in f.read_bytes() for f in files)
        assert [f for f in files if secret.encode() in f.read_bytes()] == []
    finally:
        server.end()
