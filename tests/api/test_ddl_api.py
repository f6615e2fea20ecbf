"""Schema changes that wait, through API and command line; the test writes what an owner would."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import APIRouter, FastAPI

from cdc.api import ddl, errors, shard_ddl
from cdc.base.clock import Clock, SystemClock
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    DdlAction,
    DdlDecision,
    DdlEntries,
    DdlEntry,
    DdlState,
    ErrorInfo,
    FeedInfo,
    ShardStand,
)
from owner import admin
from owner.replica_config import ConfigInvalid, check
from tests.api.server_process import run_cdc

WAITS, HELD, RUNS, FAILED, DONE = 1000 << 18, 2000 << 18, 3000 << 18, 4000 << 18, 500 << 18
ERROR = ErrorInfo(code="TG:ErrX", kind="definite", message="it cannot be", object="shop.d")
ENTRIES = DdlEntries(
    pending=[
        DdlEntry(
            ts=WAITS,
            sql="ALTER TABLE a\n  ADD COLUMN more INT",
            kind="alter table",
            tables=["shop.a"],
            waits_for=["shop.a"],
            since_ms=1_795_000_000_000,
        ),
        DdlEntry(
            ts=HELD,
            sql="DROP TABLE b",
            tables=["shop.b"],
            state=DdlState.HELD,
            why="ddl-policy hold-destructive",
        ),
        DdlEntry(ts=RUNS, sql="TRUNCATE c", tables=["shop.c"], state=DdlState.EXECUTING),
        DdlEntry(ts=FAILED, sql="RENAME TABLE d TO e", state=DdlState.FAILED, error=ERROR),
    ],
    ended=[DdlEntry(ts=DONE, sql="CREATE TABLE a (id INT)", state=DdlState.DONE)],
    executed=7,
    skipped=2,
    ignored=1,
)


@dataclass
class Stage:
    """All that the routes need of a capture, and a real listener in front of them."""

    store: EmbeddedStore
    keys: Keys
    clock: Clock
    url: str = ""

    def say(self, entries: DdlEntries, feed: str = "f") -> None:
        value = entries.model_dump_json().encode()
        assert self.store.txn([], [Put(self.keys.feed_ddls(feed), value)])

    def decision(self, ts: int) -> DdlDecision | None:
        entry = self.store.get(self.keys.ddl_decision("f", ts))
        return DdlDecision.model_validate_json(entry.value) if entry else None

    def api(self, method: str, path: str, body: Any = None) -> httpx.Response:
        url = f"{self.url}/api/v2/changefeeds{path}"
        return httpx.request(method, url, json=body, timeout=60, trust_env=False)

    def cli(
        self, *words: str, stdin: str = "", of: str = "ddl"
    ) -> subprocess.CompletedProcess[str]:
        return run_cdc("cli", of, *words, "--server", self.url, stdin=stdin)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(EmbeddedStore(tmp_path / "store", SystemClock()), Keys(), SystemClock())
    info = FeedInfo(
        id="f",
        upstream="main",
        sink_uri="kafka://127.0.0.1:1/t",
        start_ts=1,
        config={"ddl_policy": "hold-destructive"},
    )
    made.store.txn([], [Put(made.keys.feed_info("f"), info.model_dump_json().encode())])
    made.say(ENTRIES)
    app, routes = FastAPI(), APIRouter(prefix="/api/v2")
    errors.install(app)
    for of in (ddl, shard_ddl):
        routes.include_router(of.router(made))  # type: ignore[arg-type]
    app.include_router(routes)
    listener = socket.create_server(("127.0.0.1", 0))
    made.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield made
    server.should_exit = True
    thread.join()
    made.store.close()


def test_what_waits_for_whom_since_when(stage: Stage) -> None:
    page = stage.api("GET", "/f/ddls").json()
    assert [i["ts"] for i in page["items"]] == [WAITS, HELD, RUNS, FAILED]
    assert (page["total"], page["policy"], page["executed"]) == (4, "hold-destructive", 7)
    first = page["items"][0]
    assert (first["tables"], first["waits_for"]) == (["shop.a"], ["shop.a"])
    assert (first["since"], first["begun"]) == ("2026-11-18 11:06:40.000", "")
    assert page["items"][3]["error"]["code"] == "TG:ErrX"
    every = stage.api("GET", "/f/ddls?state=all").json()["items"]
    assert [i["ts"] for i in every] == [WAITS, HELD, RUNS, FAILED, DONE]
    held = stage.api("GET", "/f/ddls?state=held").json()["items"]
    assert [(i["ts"], i["why"]) for i in held] == [(HELD, "ddl-policy hold-destructive")]
    assert stage.api("GET", f"/f/ddls/{DONE}").json()["state"] == "done"
    for path, status, code in (
        ("/f/ddls?state=odd", 400, "TG:ErrAPIInvalidParam"),
        ("/f/ddls/5", 404, "TG:ErrDDLNotExists"),
        ("/other/ddls", 404, "TG:ErrChangeFeedNotExists"),
        ("/other/ddls/5", 404, "TG:ErrChangeFeedNotExists"),
    ):
        answer = stage.api("GET", path)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code)


def test_a_decision_is_recorded_with_its_reason(stage: Stage) -> None:
    for ts, action in ((WAITS, "hold"), (HELD, "approve"), (FAILED, "skip")):
        answer = stage.api("POST", f"/f/ddls/{ts}/{action}", {"reason": "because"})
        assert answer.status_code == 200, answer.text
        found = stage.decision(ts)
        assert found is not None
        assert (found.ts, found.action, found.reason) == (ts, DdlAction(action), "because")
        assert found.time_ms > 0
        assert answer.json()["decision"]["action"] == action
    stage.api("POST", f"/f/ddls/{WAITS}/approve")
    last = stage.decision(WAITS)
    assert last is not None
    assert last.action is DdlAction.APPROVE


@pytest.mark.parametrize("ts", [RUNS, DONE, 5])
@pytest.mark.parametrize("action", list(DdlAction))
def test_only_what_waits_can_be_decided_about(stage: Stage, ts: int, action: str) -> None:
    answer = stage.api("POST", f"/f/ddls/{ts}/{action}", {})
    assert (answer.status_code, answer.json()["error_code"]) == (409, "TG:ErrDDLNotPending")
    assert answer.json()["hint"]
    assert stage.decision(ts) is None


def test_wrong_requests(stage: Stage) -> None:
    for path, body in (
        (f"/f/ddls/{WAITS}/drop", {}),
        (f"/f/ddls/{WAITS}/hold", {"odd": 1}),
        ("/f/ddls/x/hold", {}),
    ):
        assert stage.api("POST", path, body).status_code == 400
    assert stage.api("POST", f"/other/ddls/{WAITS}/hold", {}).status_code == 404
    assert stage.store.range(stage.keys.ddl_decisions_prefix("f"))[1] == []


def test_a_decision_loses_against_the_owner_that_begins(stage: Stage) -> None:
    """The owner's word changes between the look and the write: the write must see it."""
    begun = ENTRIES.model_copy(
        update={"pending": [ENTRIES.pending[0].model_copy(update={"state": DdlState.EXECUTING})]}
    )
    real = stage.store.txn

    def late(compares: Any, ops: Any, **how: Any) -> bool:
        stage.store.txn = real  # type: ignore[method-assign]
        stage.say(begun)
        return real(compares, ops, **how)

    stage.store.txn = late  # type: ignore[method-assign]
    answer = stage.api("POST", f"/f/ddls/{WAITS}/skip", {})
    assert answer.json()["error_code"] == "TG:ErrDDLNotPending"
    assert stage.decision(WAITS) is None


def test_a_removed_changefeed_takes_the_decisions_with_it(stage: Stage) -> None:
    """Else a later one of the same id would skip what nobody said of it."""
    assert stage.api("POST", f"/f/ddls/{HELD}/skip", {}).status_code == 200
    assert admin.remove(stage.store, stage.keys, "f")
    assert stage.store.range(stage.keys.prefix)[1] == []


def test_the_policy_of_a_changefeed() -> None:
    assert check({}).ddl_policy == "auto"
    assert check({"ddl-policy": "hold-all"}).ddl_policy == "hold-all"
    assert check({"ddl_policy": "hold-destructive"}).ddl_policy == "hold-destructive"
    with pytest.raises(ConfigInvalid):
        check({"ddl-policy": "never"})


def test_the_commands(stage: Stage) -> None:
    listed = stage.cli("list", "-c", "f").stdout
    assert "policy hold-destructive; executed 7, skipped 2, ignored 1" in listed
    (line,) = [x for x in listed.splitlines() if x.startswith(str(WAITS))]
    assert line.split()[1:] == [
        *("waiting", "2026-11-18", "11:06:40.000", "shop.a", "shop.a"),
        *("ALTER", "TABLE", "a", "ADD", "COLUMN", "more", "INT"),
    ]
    assert str(DONE) not in listed
    assert str(DONE) in stage.cli("list", "-c", "f", "--all").stdout
    shown = json.loads(stage.cli("show", "-c", "f", "--ts", str(WAITS), "--json").stdout)
    assert shown["sql"] == ENTRIES.pending[0].sql
    assert "TG:ErrX" in stage.cli("show", "-c", "f", "--ts", str(FAILED)).stdout
    done = stage.cli("hold", "-c", "f", "--ts", str(WAITS), "--reason", "night")
    said = f"changefeed f: schema change {WAITS} is held: ALTER TABLE a ADD COLUMN more INT\n"
    assert (done.returncode, done.stdout) == (0, said)
    held = stage.decision(WAITS)
    assert held is not None
    assert (held.action, held.reason) == (DdlAction.HOLD, "night")
    assert stage.cli("approve", "-c", "f", "--ts", str(HELD)).returncode == 0
    refused = stage.cli("approve", "-c", "f", "--ts", "5")
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: [TG:ErrDDLNotPending]")


def test_a_skip_asks(stage: Stage) -> None:
    skip = ("skip", "-c", "f", "--ts", str(HELD))
    asked = stage.cli(*skip)
    assert asked.returncode == 1
    assert "DROP TABLE b" in asked.stderr
    assert stage.cli(*skip, stdin="n\n").returncode == 1
    assert stage.decision(HELD) is None
    assert stage.cli(*skip, stdin="y\n").returncode == 0
    assert stage.cli("skip", "-c", "f", "--ts", str(FAILED), "--yes").returncode == 0
    for ts in (HELD, FAILED):
        found = stage.decision(ts)
        assert found is not None
        assert found.action is DdlAction.SKIP


def _of_group(ts: int, table: str, **more: Any) -> DdlEntry:
    sql = f"ALTER TABLE {table} ADD c INT"
    return DdlEntry(ts=ts, sql=sql, kind="alter table", tables=[table], **more)


def _stand(table: str, *, came: bool) -> ShardStand:
    return ShardStand(group="all.orders", table=table, came=came)


CONFLICT = ErrorInfo(
    code="TG:ErrShardDDLConflict", kind="definite", message="they differ", hint="approve it"
)
SHARDED = DdlEntries(
    pending=[
        ENTRIES.pending[0],
        _of_group(WAITS + 1, "n1:shop .o1", since_ms=1_795_000_000_000),
        _of_group(WAITS + 2, "n1:shop .o1", since_ms=1_795_000_000_001),
        _of_group(
            HELD + 1, "n2:shop .o1", since_ms=1_795_000_000_002,
            state=DdlState.HELD, error=CONFLICT,
        ),
    ],
    shard_stands={
        WAITS + 1: _stand("n1:shop .o1", came=True),
        WAITS + 2: _stand("n1:shop .o1", came=False),
        HELD + 1: _stand("n2:shop .o1", came=False),
    },
    shard_missing={"all.orders": ["n2:shop .o2"]},
)  # fmt: skip


def test_who_has_come_to_the_change_of_a_shard_group_and_who_is_missing(stage: Stage) -> None:
    assert stage.api("GET", "/f/shard-ddls").json() == {"total": 0, "items": []}
    stage.say(SHARDED)
    (group,) = stage.api("GET", "/f/shard-ddls").json()["items"]
    assert (group["target"], group["state"]) == ("all.orders", "held")
    assert group["since"] == "2026-11-18 11:06:40.000"
    assert group["missing"] == ["n2:shop .o2"]
    stands = [(c["table"], c["ts"], c["came"], c["later"]) for c in group["changes"]]
    assert stands == [("n1:shop .o1", WAITS + 1, True, 1), ("n2:shop .o1", HELD + 1, False, 0)]
    assert group["changes"][1]["error"]["code"] == "TG:ErrShardDDLConflict"
    assert stage.api("GET", "/f/shard-ddls?contains=none").json()["total"] == 0
    unknown = stage.api("GET", "/other/shard-ddls")
    assert (unknown.status_code, unknown.json()["error_code"]) == (404, "TG:ErrChangeFeedNotExists")
    # Who approves it has seen the conflict.
    assert stage.api("POST", f"/f/ddls/{HELD + 1}/approve").status_code == 200
    said = stage.decision(HELD + 1)
    assert said is not None
    assert said.about == "TG:ErrShardDDLConflict"


def test_the_command_line_shows_shard_groups(stage: Stage) -> None:
    stage.say(SHARDED)
    (line,) = stage.cli("list", "-c", "f", of="shard-ddl").stdout.splitlines()[1:]
    assert line.split()[:2] == ["all.orders", "held"]
    assert "1/3" in line
    assert "n2:shop .o1, n2:shop .o2" in line
    shown = stage.cli("show", "-c", "f", "--target", "all.orders", of="shard-ddl").stdout
    for text in ("n1:shop .o1", "missing", "TG:ErrShardDDLConflict", "hint: approve it"):
        assert text in shown
    as_json = stage.cli("show", "-c", "f", "-t", "all.orders", "--json", of="shard-ddl")
    assert json.loads(as_json.stdout)["missing"] == ["n2:shop .o2"]
    none = stage.cli("show", "-c", "f", "-t", "all.none", of="shard-ddl")
    assert "no schema change of all.none waits" in none.stdout
