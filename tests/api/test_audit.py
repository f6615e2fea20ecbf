"""Every change through the API is written down: who, what, before, after; and no secret with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from starlette.testclient import TestClient

from cdc.api import roles
from cdc.api.app import make
from cdc.api.audited import difference, shown
from cdc.api.guard import Guard
from cdc.base.clock import SystemClock
from cdc.coord.contract import Put
from cdc.coord.keys import Keys
from cdc.coord.messages import DdlEntries, DdlEntry, FeedInfo, UpstreamInfo, UpstreamStatus
from cdc.server.api_tokens import OWN, ApiRole, ApiTokens
from cdc.server.audit import PLACES, AuditLog, AuditOutcome, Ring
from cdc.server.upstream_errors import UpstreamNotFound
from owner import orders
from tests.api.server_process import CdcServer, run_cdc
from tests.server.failing_store import FailingStore

KEYS = Keys()
CHANGES = [key for key in roles.ROUTES if roles.is_change(*key)]
SECRET = "Pl4nt3dS3cret"
TS = 1000 << 18
_OWN = "t" * 43


class Stage:
    """The real application over a real store; what would reach a database only writes there."""

    def __init__(self, store: FailingStore) -> None:
        self.store = store
        self.log = AuditLog(store, KEYS, SystemClock(), "c1")
        capture = self.capture = MagicMock(
            store=store, keys=KEYS, clock=SystemClock(), id="c1", audit=self.log
        )
        self.tokens = capture.tokens = ApiTokens(store, KEYS, SystemClock())
        capture.upstreams = self
        self.put(KEYS.feed_info("f"), FeedInfo(
            id="f", upstream="main", start_ts=1, config={},
            sink_uri=f"kafka://u:{SECRET}@127.0.0.1:1/t?sasl-password={SECRET}",
        ))  # fmt: skip
        waits = DdlEntry(ts=TS, sql="DROP TABLE a", tables=["shop.a"])
        self.put(KEYS.feed_ddls("f"), DdlEntries(pending=[waits]))
        app = make(capture, Guard.of(_OWN, ["127.0.0.1"]))
        self.http = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)

    def put(self, key: str, value: Any) -> None:
        assert self.store.txn([], [Put(key, value.model_dump_json().encode())])

    def register(self, name: str, uri: str, **_: Any) -> UpstreamInfo:
        made = UpstreamInfo(name=name, uri=uri)
        self.put(KEYS.upstream_info(name), made)
        return made

    def info(self, name: str) -> UpstreamInfo:
        entry = self.store.get(KEYS.upstream_info(name))
        if entry is None:
            raise UpstreamNotFound("there is no such upstream")
        return UpstreamInfo.model_validate_json(entry.value)

    def status(self, _: str) -> UpstreamStatus:
        return UpstreamStatus()

    def send(self, method: str, path: str, body: Any = None, token: str = _OWN) -> int:
        head = {"Authorization": f"Bearer {token}"}
        return self.http.request(method, f"/api/v2{path}", json=body, headers=head).status_code

    def entries(self) -> list[Any]:
        head = {"Authorization": f"Bearer {_OWN}"}
        items: list[Any] = self.http.get("/api/v2/audit", headers=head).json()["items"]
        return items


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    store = FailingStore(tmp_path / "store")
    yield Stage(store)
    store.close()


def test_every_route_that_changes_something_leaves_one_entry(server: CdcServer) -> None:
    """On a real server, for all of the table: refused by what is not there, or by the role."""
    made = server.api("POST", "/tokens", {"name": "aud-viewer", "role": "viewer"}).json()["token"]
    for method, path in CHANGES:
        given = re.sub(r"\{\w+\}", "none", path)
        for token, who, role in ((None, OWN.name, "admin"), (made, "aud-viewer", "viewer")):
            before = server.api("GET", "/audit?limit=2200").json()["total"]
            answer = server.send(method, given, token)
            items = server.api("GET", "/audit?limit=2200").json()
            # None beyond what the ring holds, and no ring is full here.
            assert items["total"] == before + 1, (method, path)
            (entry,) = (e for e in items["items"][-1:])
            assert (entry["action"], entry["caller"]) == (f"{method} {path}", who)
            assert (entry["role"], entry["peer"]) == (role, "127.0.0.1")
            assert entry["status"] == answer.status_code
            code = "ok" if answer.is_success else answer.json()["error_code"]
            assert entry["outcome"] == code
            assert (code == "TG:ErrAPIForbidden") == (token is not None), (method, path)
    # What only asks leaves none, nor does whoever has no token.
    before = server.api("GET", "/audit").json()["total"]
    for method, path in sorted(roles.ROUTES.keys() - set(CHANGES)):
        server.send(method, re.sub(r"\{\w+\}", "none", path))
    server.send("POST", "/api/v2/changefeeds", "")
    assert server.api("GET", "/audit").json()["total"] == before
    assert server.send("GET", "/api/v2/audit", made).status_code == 403


def test_what_was_and_what_is(stage: Stage) -> None:
    ann, _ = stage.tokens.create("ann", ApiRole.OPERATOR, None, "bob")
    uri = f"mysql://root:{SECRET}@127.0.0.1:3306"
    assert stage.send("POST", "/upstreams", {"name": "main", "uri": uri}) == 200
    assert stage.send("POST", "/changefeeds/f/pause", token=ann) == 200
    why = {"reason": f"seen; password={SECRET}"}
    assert stage.send("POST", f"/changefeeds/f/ddls/{TS}/approve", why, ann) == 200
    assert stage.send("POST", "/tokens", {"name": "eve", "role": "viewer"}) == 200
    assert stage.send("DELETE", "/tokens/eve") == 200
    assert stage.send("DELETE", "/tokens/eve") == 404
    created, paused, approved, made, revoked, again = stage.entries()
    assert created["object"] == "upstream main"
    assert (created["before"], created["after"]["name"]) == (None, "main")
    assert created["after"]["uri"] == "mysql://root:******@127.0.0.1:3306"
    assert (paused["caller"], paused["role"]) == ("ann", "operator")
    assert (paused["before"], paused["after"]) == ({"state": "normal"}, {"state": "stopped"})
    assert approved["object"] == f"changefeed f, ts {TS}"
    assert (approved["before"], approved["after"]["action"]) == (None, "approve")
    assert approved["after"]["reason"].startswith("seen; ")
    assert (made["object"], made["after"]["role"]) == ("token eve", "viewer")
    assert (revoked["before"]["role"], revoked["after"]) == ("viewer", None)
    assert (again["outcome"], again["status"]) == ("TG:ErrTokenNotExists", 404)


def test_snapshots_are_told_apart(stage: Stage) -> None:
    capture = stage.capture
    capture.operations.copy_rows = lambda feed, asked: orders.add(
        stage.store, KEYS, feed, asked, now_ms=4
    )
    body = {"tables": ["shop.*"], "where": f"a > 1 /* password={SECRET} */"}
    for _ in range(2):
        assert stage.send("POST", "/changefeeds/f/snapshots", body) == 200
    assert stage.send("POST", "/changefeeds/f/snapshots/2/pause", {}) == 200
    assert stage.send("POST", "/changefeeds/f/snapshots/2/resume", {}) == 200
    assert stage.send("POST", "/changefeeds/f/snapshots/2/cancel", {}) == 200
    assert stage.send("POST", "/changefeeds/f/snapshots/2/pause", {}) == 409
    assert stage.send("POST", "/changefeeds/f/snapshots/3/cancel", {}) == 404
    assert stage.send("POST", "/changefeeds/f/snapshots", {"tables": []}) == 400
    first, second, paused, resumed, cancelled, late, unknown, _ = stage.entries()
    objects = [e["object"] for e in stage.entries()]
    numbers = (1, 2, 2, 2, 2, 2, 3)
    assert objects == [*(f"changefeed f, snapshot {n}" for n in numbers), "changefeed f"]
    assert (paused["before"], paused["after"]) == ({"paused": False}, {"paused": True})
    assert (resumed["before"], resumed["after"]) == ({"paused": True}, {"paused": False})
    assert (late["outcome"], second["outcome"]) == ("TG:ErrSnapshotNotPaused", "ok")
    assert (first["before"], first["after"]["tables"]) == (None, ["shop.*"])
    assert (cancelled["before"], cancelled["after"]) == ({"cancelled": False}, {"cancelled": True})
    assert (unknown["before"], unknown["outcome"]) == (None, "TG:ErrSnapshotNotExists")
    assert SECRET not in json.dumps(stage.entries())


def test_no_secret_is_in_it(stage: Stage, tmp_path: Path) -> None:
    """Wherever a request has one: in what is taken, and in what is refused."""
    uri = f"mysql://root:{SECRET}@127.0.0.1:3306"
    stage.send("POST", "/upstreams", {"name": "main", "uri": uri})
    stage.send("POST", "/upstreams", {"name": "raw", "uri": f"mysql://root:a/{SECRET}@h"})
    stage.send("POST", "/upstreams", {"name": "no", "uri": uri, "password": SECRET})
    body = {"sink_uri": uri, "replica_config": {"sink": {"sasl-password": SECRET}}}
    stage.send("PUT", "/changefeeds/f", body)
    stage.send("POST", "/changefeeds", {"upstream": "main", **body})
    stage.send("POST", "/changefeeds/f/pause")
    stage.send("POST", "/changefeeds/f/resume")
    stage.send("DELETE", f"/changefeeds/password={SECRET}")
    token, _ = stage.tokens.create("ann", ApiRole.VIEWER, None, "bob")
    stage.send("POST", "/changefeeds/f/pause", token=token)
    assert len(stage.entries()) >= 9
    kept = stage.store.range(KEYS.meta_prefix + "audit")[1]
    assert len(kept) >= 9
    for text in [json.dumps(stage.entries()), *(e.value.decode() for e in kept)]:
        assert SECRET not in text
        assert token not in text


def test_secrets_are_masked_wherever_a_setting_has_them() -> None:
    nested = {"sink": {"kafka": {"sasl_password": SECRET, "x": [f"mysql://a:{SECRET}@b"]}}}
    was, now = difference({"config": nested, "uri": f"mysql://a:{SECRET}@b"}, {"config": {}})
    assert SECRET not in json.dumps([shown(nested), was, now])
    assert was is not None
    assert was["config.sink.kafka.sasl_password"] == "******"


def test_a_change_that_cannot_be_written_down_is_not_made(stage: Stage) -> None:
    stage.store.broken = True
    assert stage.send("POST", "/log", {"log_level": "debug"}) == 503
    assert stage.send("POST", "/changefeeds/f/pause") == 503
    stage.store.broken = False
    entry = stage.store.get(KEYS.feed_info("f"))
    assert entry is not None
    assert FeedInfo.model_validate_json(entry.value).state == "normal"
    assert stage.entries() == []


def test_one_whose_outcome_is_not_known_shows_that(stage: Stage) -> None:
    begun = stage.log.begin(OWN, "127.0.0.1", "POST /api/v2/log", "log")
    (entry,) = stage.entries()
    assert (entry["outcome"], entry["status"]) == ("", 0)
    stage.log.end(begun, AuditOutcome("log", "ok", 200))
    (entry,) = stage.entries()
    assert entry["outcome"] == "ok"


def test_it_keeps_the_newest_and_who_may_nothing_drives_nothing_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACES, Ring.CHANGES, 5)
    monkeypatch.setitem(PLACES, Ring.FORBIDDEN, 3)
    begun = [stage.log.begin(OWN, "", f"POST /{n}", "log") for n in range(8)]
    viewer, _ = stage.tokens.create("eve", ApiRole.VIEWER, None, "bob")
    for _ in range(7):
        assert stage.send("POST", "/changefeeds/f/pause", token=viewer) == 403
    # Too late: its place has another by now, which stays.
    stage.log.end(begun[0], AuditOutcome("log", "ok", 200))
    kept = stage.log.entries()
    assert [e.action for e in kept if e.caller != "eve"] == [f"POST /{n}" for n in range(3, 8)]
    assert len([e for e in kept if e.caller == "eve"]) == 3


def test_captures_write_the_same_log(stage: Stage) -> None:
    other = AuditLog(stage.store, KEYS, SystemClock(), "c2")
    for log in (stage.log, other, stage.log, other):
        log.end(log.begin(OWN, "", "POST /api/v2/log", "log"), AuditOutcome("log", "ok", 200))
    assert [(e.number, e.capture) for e in other.entries()] == [
        (0, "c1"), (1, "c2"), (2, "c1"), (3, "c2"),
    ]  # fmt: skip


def test_the_command_line_shows_it(server: CdcServer) -> None:
    words = ("token", "create", "--name", "aud-cli", "--role", "viewer")
    assert server.cli(*words).returncode == 0
    for object in ("token aud-cli", "aud-cli"):
        (item,) = server.cli_json("audit", "--object", object, "--since", "10m")
        assert item["after"]["role"] == "viewer"
    text = server.cli("audit", "--object", "aud-cli").stdout
    assert re.search(r"^TIME +WHO +ROLE +FROM +WHAT +OBJECT +OUTCOME +CHANGED", text)
    assert re.search(r"admin +127.0.0.1 +POST /api/v2/tokens +token aud-cli +ok +created", text)
    assert server.cli_json("audit", "--object", "aud-cli", "--since", "2099-01-01T00:00Z") == []
    refused = run_cdc("cli", "audit", "--since", "soon", "--server", server.url)
    assert "[TG:ErrTsInvalid]" in refused.stderr
