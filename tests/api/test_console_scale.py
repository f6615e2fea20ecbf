"""The console over a store with 500 changefeeds, one of which has 100,000 tables that wait."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from unittest.mock import MagicMock

import httpx
import pytest
import uvicorn
from playwright.sync_api import expect
from pydantic import BaseModel

from cdc.api.app import make
from cdc.api.feed_tables import TableOut, TableState, standing
from cdc.api.guard import Guard
from cdc.base.clock import SystemClock
from cdc.base.ts import compose
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
    FeedState,
    FeedStatus,
    PreparedXa,
    SnapshotProgress,
    TableStop,
    UpstreamFinding,
    UpstreamInfo,
    UpstreamStatus,
)
from cdc.server.api_tokens import ApiTokens
from cdc.verify.job import Jobs
from tests.api.browser import Console, running
from tests.waiting import PATIENCE

OWN = "t" * 43
TABLES, FEEDS = 100_000, 500
ERROR = ErrorInfo(
    code="TG:ErrX", kind="transient", message="<b>no</b>", object="topic t", hint="start it"
)


@dataclass
class Store:
    """The application over a store that the test fills as an owner would."""

    store: EmbeddedStore
    keys: Keys
    url: str
    now: int

    def put(self, *entries: tuple[str, BaseModel]) -> None:
        puts = [Put(key, value.model_dump_json().encode()) for key, value in entries]
        for n in range(0, len(puts), 100):
            assert self.store.txn([], puts[n : n + 100])

    def feed(self, name: str, status: FeedStatus, **info: object) -> None:
        made = FeedInfo(id=name, upstream="u", sink_uri="kafka://h/t", start_ts=1, **info)  # type: ignore[arg-type]
        self.put((self.keys.feed_info(name), made), (self.keys.feed_status(name), status))

    def decision(self, feed: str, ts: int) -> DdlDecision | None:
        entry = self.store.get(self.keys.ddl_decision(feed, ts))
        return DdlDecision.model_validate_json(entry.value) if entry else None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    clock, keys = SystemClock(), Keys()
    opened = EmbeddedStore(tmp_path_factory.mktemp("store") / "meta.db", clock)
    capture = MagicMock(store=opened, keys=keys, clock=clock, verifications=Jobs())
    capture.tokens = ApiTokens(opened, keys, clock)
    info = UpstreamInfo(
        name="u",
        uri="mysql://root:s3cret@h",
        findings=[UpstreamFinding(what="f", statement="SET x")],
    )
    capture.upstreams.all.return_value = [info]
    capture.upstreams.unreadable.return_value = {}
    capture.upstreams.status.return_value = UpstreamStatus(
        state="retrying",
        log_bytes=3 << 30,
        error=ERROR,
        prepared=[PreparedXa(xid="X'1'", since_ms=1, log_bytes=7)],
    )
    listener = socket.create_server(("127.0.0.1", 0))
    app = make(capture, Guard.of(OWN, ["127.0.0.1"]))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield _filled(Store(opened, keys, url, compose(clock.now_ms())))
    server.should_exit = True
    thread.join()
    opened.close()


def _filled(made: Store) -> Store:
    now = made.now
    for n in range(FEEDS - 1):
        failed = n == 7
        made.feed(
            f"feed-{n:03}",
            FeedStatus(checkpoint_ts=now - (n << 18)),
            state=FeedState.FAILED if failed else FeedState.NORMAL,
            error=ERROR if failed else None,
        )
    held = {f"shop.t{n:06}": now - (n << 18) for n in range(1, TABLES)}
    stop = TableStop(table="shop.Bad", ts=now, error=ERROR)
    status = FeedStatus(
        checkpoint_ts=now - (TABLES << 18),
        main_ts=now,
        tables=held,
        stopped_tables=[stop],
        snapshot=SnapshotProgress(tables=TABLES, tables_done=25_000, rows=10**9, bytes=5 << 40),
    )
    snapshot = {"snapshot": {"mode": "initial"}}
    made.feed("big", status, config=snapshot)
    # The place of a ts is beyond what a number of JavaScript tells apart.
    changes = [DdlEntry(ts=now + n, sql=f"ALTER TABLE t{n} ADD c INT") for n in (1, 2, 3)]
    changes[2] = changes[2].model_copy(update={"state": DdlState.FAILED, "error": ERROR})
    ended = [DdlEntry(ts=n, sql=f"DROP TABLE o{n}", state=DdlState.DONE) for n in range(1, 31)]
    entries = DdlEntries(pending=changes, ended=ended, executed=30)
    made.put((made.keys.feed_ddls("big"), entries))
    return made


@pytest.fixture(scope="module")
def tab(store: Store) -> Iterator[Console]:
    with running() as browser:
        made = Console(browser, store.url)
        yield made
        assert made.complaints() == []
        assert made.refused == []


def _get(store: Store, path: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {OWN}"}
    return httpx.get(f"{store.url}/api/v2{path}", headers=headers, trust_env=False, timeout=60)


@pytest.mark.parametrize(
    ("path", "total"),
    [
        ("/changefeeds?limit=100", FEEDS),
        ("/changefeeds?contains=FEED-49&offset=3&limit=2", 9),
        ("/changefeeds/big/tables?limit=50", TABLES),
        ("/changefeeds/big/tables?limit=50&contains=T09999", 10),
        ("/changefeeds/big/tables?state=stopped", 1),
        ("/changefeeds/big/ddls?state=all&limit=20", 33),
        ("/changefeeds/big/ddls?state=all&contains=drop&limit=5&offset=28", 30),
        ("/upstreams?contains=none", 0),
    ],
)
def test_a_page_of_a_long_list(store: Store, path: str, total: int) -> None:
    page = _get(store, path).json()
    query = httpx.URL(path).params
    limit, offset = int(query.get("limit", 0)) or total, int(query.get("offset", 0))
    assert page["total"] == total
    assert len(page["items"]) == min(limit, total - offset)


@pytest.mark.parametrize("query", ["limit=-1", "limit=10001", "offset=-1", "offset=x", "limit="])
def test_a_part_that_is_none_is_refused(store: Store, query: str) -> None:
    answer = _get(store, f"/changefeeds?{query}")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "TG:ErrAPIInvalidParam")


def test_why_a_table_waits() -> None:
    status = FeedStatus(
        checkpoint_ts=5,
        main_ts=10,
        tables={"s.a": 5, "s.b": 7, "s.up": 12, "s.same": 10},
        stopped_tables=[TableStop(table="s.B", ts=8, error=ERROR)],
    )
    held = DdlEntry(ts=6, sql="", tables=["s.A", "s.c"], state=DdlState.HELD)
    later = DdlEntry(ts=9, sql="", tables=["S.a"])
    places = standing(status, DdlEntries(pending=[later, held]), ["S.d"])
    found = {p.table: TableOut.of(p) for p in places}
    shown = {n: (str(t.state), t.checkpoint_ts, t.why, t.ddl_ts) for n, t in found.items()}
    assert shown == {
        "s.A": ("waiting", 5, "for a schema change that is held", 6),
        "s.B": ("stopped", 7, "<b>no</b>", 0),
        "s.c": ("waiting", 10, "for a schema change that is held", 6),
        "s.same": ("delivering", 10, "", 0),
        "s.up": ("apart", 12, "waits for the others", 0),
        "S.d": ("delivering", 10, "", 0),
    }
    assert found["s.B"].error is not None
    all_wait = DdlEntries(pending=[DdlEntry(ts=6, sql="", tables=["*"])])
    assert {t.state for t in standing(status, all_wait, [])} == {
        TableState.WAITING,
        TableState.STOPPED,
    }


def test_500_changefeeds_and_100000_tables_are_shown(store: Store, tab: Console) -> None:
    page = tab.open(OWN)
    expect(tab.row("big")).to_be_visible()
    assert page.locator("tbody tr").count() == 100
    page.get_by_role("button", name="Next").click()
    tab.row("feed-150").wait_for()
    page.get_by_label("Name contains").fill("big")
    tab.row("big").get_by_role("link").click()
    tab.row("shop.bad").or_(tab.row("shop.Bad")).first.wait_for()
    expect(tab.row("shop.Bad")).to_contain_text("Hint: start it")
    expect(page.locator("section[data-key=tables]")).to_contain_text("100,000 in all")
    copied = page.locator("section[data-key=snapshot]")
    expect(copied).to_contain_text("25,000 of 100,000 tables, 1,000,000,000 rows, 5.0 TiB read")
    expect(copied).to_contain_text("copying")
    expect(page.locator("li[data-key]")).to_have_count(20)


def test_what_is_typed_and_where_one_is_stays_while_answers_come(tab: Console) -> None:
    page = tab.open(OWN, "changefeeds/big")
    field = page.get_by_label("Name contains")
    field.fill("t000007")
    expect(tab.row("shop.t000007")).to_be_visible()
    expect(tab.row("shop.t000001")).to_have_count(0)
    row = tab.row("shop.t000007").element_handle()
    asked = len(tab.asked)
    page.wait_for_function("document.activeElement.dataset.set === 'table'")
    _answers(tab, asked, 8)
    assert field.input_value() == "t000007"
    assert row is not None
    assert row.is_visible()
    expect(field).to_be_focused()


def _answers(tab: Console, since: int, count: int) -> None:
    deadline = time.monotonic() + 20 * PATIENCE
    while len(tab.asked) < since + count:
        assert time.monotonic() < deadline
        tab.page.wait_for_timeout(100)


def test_a_decision_reaches_the_change_that_was_meant_to_the_last_digit(
    store: Store, tab: Console
) -> None:
    page = tab.open(OWN, "changefeeds/big")
    ts = store.now + 2
    change = page.locator(f"li[data-key='{ts}']")
    tab.click(change, "Hold…")
    # Enter in the field says yes, as the button does.
    page.get_by_role("dialog").get_by_role("textbox").fill("ask ann")
    page.keyboard.press("Enter")
    expect(change).to_contain_text("hold: ask ann")
    decision = store.decision("big", ts)
    assert decision is not None
    assert (decision.action, decision.reason) == (DdlAction.HOLD, "ask ann")
    assert [store.decision("big", store.now + n) for n in (1, 3)] == [None, None]
    failed = page.locator(f"li[data-key='{store.now + 3}']")
    assert failed.get_by_role("button").all_inner_texts() == ["Skip…"]


def test_errors_of_all_are_listed_with_their_hints(tab: Console) -> None:
    page = tab.open(OWN, "errors")
    found = page.get_by_role("table", name="Errors")
    for of in ("changefeed feed-007", "upstream u"):
        row = found.get_by_role("row").filter(has_text=of)
        expect(row).to_contain_text("topic t: <b>no</b>")
        expect(row).to_contain_text("Hint: start it")
    page.get_by_role("link", name="Upstreams").click()
    expect(tab.row("u")).to_contain_text("3.0 GiB")
    expect(tab.row("u")).to_contain_text("Hint: SET x")
    assert "s3cret" not in page.content()
