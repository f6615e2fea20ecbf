"""What operators do to changefeeds, over a real store and a sink of files, without a capture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.errors import DefiniteError, InvalidError, TidegateError
from cdc.base.position import Position
from cdc.base.refusals import reasons_of
from cdc.base.ts import compose
from cdc.changelog.errors import LogCollected
from cdc.coord.contract import MAX_OPS, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.expected import ChangedSince
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo, FeedState, FeedStatus
from owner import admin
from owner.admin import ChangefeedNotFound
from owner.config_change import ConfigChangeRefused
from owner.eligibility import TableIneligible, tables_to_deliver
from owner.replica_config import ConfigInvalid
from owner.requests import ChangefeedUpdate, NewChangefeed, NewCopy
from owner.rerouting import ReroutingRefused
from owner.rewinding import RewindRefused
from owner.state import TransitionRefused
from processor.acknowledged import Acknowledged
from tests.owner.operating import (
    DESTINATION,
    START_TS,
    Installation,
    deliver,
    positions,
    schema_of,
)

UNREACHABLE = "mysql://root@127.0.0.1:1/"
HOUR_MS = 3_600_000
KEYED = {"keyed": "id INT PRIMARY KEY"}
MIXED = {**KEYED, "loose": "a INT", "stray": "a INT, UNIQUE (a)"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    """An installation whose upstream has one table, with a key."""
    made = Installation(EmbeddedStore(tmp_path / "meta.db", SystemClock()))
    made.schema = schema_of(KEYED)
    yield made
    made.store.close()


@pytest.fixture
def sink(tmp_path: Path) -> str:
    """A sink with a ledger that needs no server."""
    return f"file://{tmp_path}/sink?protocol=canal-json"


def stored(here: Installation, feed: str) -> FeedInfo:
    return admin.get(here.store, here.keys, feed)[1]


def reached(here: Installation, feed: str) -> int:
    return admin.status(here.store, here.keys, stored(here, feed)).checkpoint_ts


def move(here: Installation, feed: str, checkpoint_ts: int) -> None:
    """Write the progress that an owner would."""
    status = FeedStatus(checkpoint_ts=checkpoint_ts, main_ts=checkpoint_ts)
    here.store.txn([], [Put(here.keys.feed_status(feed), status.model_dump_json().encode())])


def paused(here: Installation, sink: str, feed: str = "f", **more: Any) -> FeedInfo:
    """A changefeed that was created and paused."""
    here.create(feed, sink, **more)
    here.calls.clear()
    return admin.pause(here.store, here.keys, feed)


def names(calls: list[tuple[Any, ...]]) -> list[str]:
    return [call[0] for call in calls]


def codes_of(refused: pytest.ExceptionInfo[TidegateError]) -> list[str]:
    assert isinstance(refused.value, InvalidError | DefiniteError)
    return [reason.code for reason in reasons_of(refused.value)]


def test_create_refuses_all_that_is_wrong(here: Installation, sink: str, tmp_path: Path) -> None:
    here.create("taken", sink)
    here.schema = schema_of(MIXED)
    (tmp_path / "file").touch()
    expression = {"matcher": ["shop.keyed"], "ignore-insert-value-expr": "nothing = 1"}
    future = compose(here.clock.now_ms() + HOUR_MS)
    # All at once is wrong, and each answer has all of it; the first is put right each time. That a
    # changefeed is there already stands alone.
    asked: dict[str, Any] = {
        "id": "a--b",
        "upstream": "other",
        "sink_uri": "",
        "start_ts": future,
        "target_ts": 7,
        "replica_config": {"filters": {}},
    }
    key, start, sink_missing = (
        "TG:ErrConfigUnknownKey",
        "TG:ErrStartTsInvalid",
        "TG:ErrSinkURIMissing",
    )
    elsewhere = ["TG:ErrUpstreamNotFound", sink_missing, start, key]
    more = {
        "TG:ErrInvalidChangefeedID": elsewhere,
        "TG:ErrUpstreamNotFound": [sink_missing, start, key],
        sink_missing: [start, key],
        start: [key],
        "TG:ErrTargetTsBeforeStartTs": [key],
    }
    for code, mended in (
        ("TG:ErrInvalidChangefeedID", {"id": "taken"}),
        ("TG:ErrChangeFeedAlreadyExists", {"id": "new"}),
        ("TG:ErrUpstreamNotFound", {"upstream": "main"}),
        ("TG:ErrSinkURIMissing", {"sink_uri": f"file://{tmp_path}/file/in?protocol=canal-json"}),
        ("TG:ErrStartTsInvalid", {"start_ts": 2000}),
        ("TG:ErrTargetTsBeforeStartTs", {"target_ts": 3000}),
        ("TG:ErrConfigUnknownKey", {"replica_config": {"filter": {"event-filters": [expression]}}}),
        (
            "TG:ErrTableIneligible",
            {
                "replica_config": {
                    "force-replicate": True,
                    "filter": {"event-filters": [expression]},
                }
            },
        ),
        ("TG:ErrExpressionColumnNotFound", {"replica_config": {"force-replicate": True}}),
        ("TG:ErrFileFolderUnusable", {"sink_uri": sink.replace("/sink?", "/another?")}),
    ):
        with pytest.raises(TidegateError) as refused:
            here.operations.create(NewChangefeed(**asked))
        assert codes_of(refused) == [code, *more.get(code, [])]
        asked |= mended
    assert [e.key for e in here.store.range(here.keys.feed_info_prefix)[1]] == [
        here.keys.feed_info("taken")
    ]
    made = here.operations.create(NewChangefeed(**asked)).info
    assert (made.start_ts, made.target_ts, made.state) == (2000, 3000, FeedState.NORMAL)
    assert stored(here, "new") == made
    assert reached(here, "new") == 2000


def test_a_changefeed_without_an_id_gets_one(here: Installation) -> None:
    first, second = here.create("", "blackhole://"), here.create("", "blackhole://")
    assert first.id != second.id
    assert stored(here, first.id) == first


def test_a_sink_section_that_is_no_table_is_refused(here: Installation) -> None:
    with pytest.raises(ConfigInvalid, match="sink is not a table"):
        here.create("f", "blackhole://", replica_config={"sink": 1})


def test_a_target_is_compared_with_the_start_of_this_moment(here: Installation) -> None:
    """Whoever gives no start is told of the ts that the snapshot was taken at."""
    here.schema_ts = compose(here.clock.now_ms() + HOUR_MS)
    target_ts = compose(here.clock.now_ms() + HOUR_MS // 2)
    with pytest.raises(TidegateError) as refused:
        here.create("f", "blackhole://", target_ts=target_ts)
    assert refused.value.code == "TG:ErrTargetTsBeforeStartTs"
    assert str(here.schema_ts) in refused.value.message


def test_requests_do_not_show_what_may_be_secret() -> None:
    config = {"sink": {"kafka-config": {"sasl-password": "hush"}}}
    uri = "kafka://u:hush@h/t"
    assert "hush" not in repr(NewChangefeed("f", "main", uri, replica_config=config))
    assert "hush" not in repr(ChangefeedUpdate(uri, None, config))


def test_which_tables_are_delivered() -> None:
    schema = schema_of(MIXED)
    with pytest.raises(TableIneligible, match=r"shop\.loose, shop\.stray"):
        tables_to_deliver(schema, FeedConfig())

    def delivered(**config: Any) -> list[str]:
        return [t.name for t in tables_to_deliver(schema, FeedConfig(**config))]

    assert delivered(ignore_ineligible_table=True) == ["keyed"]
    assert delivered(force_replicate=True) == ["keyed", "loose", "stray"]
    assert delivered(filter={"rules": ["shop.k*"]}) == ["keyed"]


def test_warnings(here: Installation) -> None:
    here.schema = schema_of(MIXED)
    here.schema_ts = compose(here.clock.now_ms())
    left_out = here.create_with_warnings(
        "f", "blackhole://", replica_config={"ignore-ineligible-table": True}
    )
    days_ago = compose(here.clock.now_ms() - 48 * HOUR_MS)
    taken = here.create_with_warnings(
        "g", "blackhole://", start_ts=days_ago, replica_config={"force-replicate": True}
    )
    assert left_out.warnings == [
        "tables without a primary key or a not-null unique key are left out: shop.loose, shop.stray"
    ]
    assert taken.warnings == [
        "start-ts is 48 hours ago",
        "tables without a primary key or a not-null unique key are replicated, so their consumers "
        "cannot tell rows apart: shop.loose, shop.stray",
    ]
    # The schema is read once, and each table in it.
    assert names(here.calls).count("schema_at") == 2


def test_only_so_many_tables_are_named(here: Installation) -> None:
    here.schema = schema_of({f"t{i:02}": "a INT" for i in range(25)})
    with pytest.raises(TableIneligible, match=r"shop\.t19 and 5 more"):
        here.create("f", "blackhole://")


def test_nothing_is_looked_at_that_the_state_forbids(here: Installation) -> None:
    here.create("f", "blackhole://")
    here.calls.clear()
    wrong = ChangefeedUpdate(sink_uri="nonsense://", target_ts=1, replica_config={"filters": {}})
    for operate in (
        lambda: here.operations.update("f", wrong),
        lambda: here.operations.resume("f", 1),
        lambda: here.operations.rewind("f"),
    ):
        with pytest.raises(TransitionRefused):
            operate()
    assert here.calls == []


def test_what_is_not_there(here: Installation) -> None:
    for operate in (
        lambda: here.operations.update("f", ChangefeedUpdate(target_ts=1)),
        lambda: here.operations.resume("f"),
        lambda: here.operations.rewind("f"),
    ):
        with pytest.raises(ChangefeedNotFound):
            operate()
    # Removing is idempotent.
    here.operations.remove("f")
    assert here.calls == []


def test_an_update_changes_what_is_given_and_nothing_else(here: Installation, sink: str) -> None:
    before = paused(here, sink, start_ts=START_TS, target_ts=9000)
    after = here.operations.update("f", ChangefeedUpdate(target_ts=0))
    assert after == before.model_copy(update={"target_ts": 0})
    # A target alone needs neither schema nor sink.
    assert here.calls == []
    config = {"filter": {"rules": ["shop.*"]}}
    after = here.operations.update("f", ChangefeedUpdate(replica_config=config))
    assert after.config["filter"]["rules"] == ["shop.*"]
    assert (after.sink_uri, after.target_ts) == (before.sink_uri, 0)
    assert here.calls == [("schema_at", "main", START_TS)]
    assert stored(here, "f") == after


def test_one_that_runs_is_given_what_is_new_and_goes_on(here: Installation, sink: str) -> None:
    before = here.create("f", sink)
    config = {"filter": {"rules": ["shop.*"]}}
    after = here.operations.update("f", ChangefeedUpdate(replica_config=config))
    assert after.change is not None
    assert after.change.config["filter"]["rules"] == ["shop.*"]
    # Nothing counts before the owner has found a ts for it.
    assert (after.change.ts, after.change.sink_uri) == (0, before.sink_uri)
    assert after.model_copy(update={"change": None}) == before
    # What is asked for next is added to it.
    more = here.operations.update("f", ChangefeedUpdate(sink_uri=sink + "&flush-interval=9s"))
    assert more.change is not None
    assert more.change.config == after.change.config
    assert more.change.sink_uri.endswith("=9s")
    with pytest.raises(ConfigChangeRefused, match="about to take"):
        here.operations.copy_rows("f", NewCopy(["shop.*"]))
    with pytest.raises(ConfigChangeRefused, match="where it is"):
        here.operations.update("f", ChangefeedUpdate(sink_uri=sink.replace("/sink", "/other")))
    with pytest.raises(TransitionRefused):
        here.operations.update("f", ChangefeedUpdate(target_ts=9000, replica_config=config))
    assert stored(here, "f") == more
    # One that is paused takes what it is given at once, in place of that.
    admin.pause(here.store, here.keys, "f")
    paused_one = here.operations.update("f", ChangefeedUpdate(replica_config={}))
    assert (paused_one.change, paused_one.sink_uri) == (None, before.sink_uri)


def test_of_two_who_change_it_at_once_none_is_undone(here: Installation, sink: str) -> None:
    here.create("f", sink)
    ours = ChangefeedUpdate(replica_config={"filter": {"rules": ["shop.*"]}})
    theirs = ChangefeedUpdate(sink_uri=sink + "&flush-interval=9s")
    # While ours is checked with the target, which takes its time.
    here.overtaking.append(lambda: here.operations.update("f", theirs))
    with pytest.raises(ChangedSince, match="somebody else"):
        here.operations.update("f", ours)
    after = here.operations.update("f", ours).change
    assert after is not None
    assert after.sink_uri.endswith("=9s")
    assert after.config["filter"]["rules"] == ["shop.*"]


def test_an_update_is_all_or_nothing(here: Installation, sink: str) -> None:
    before = paused(here, sink)
    move(here, "f", 5000)
    config = {"filter": {"rules": ["shop.*"]}}
    for code, asked in (
        ("TG:ErrTargetTsBeforeStartTs", ChangefeedUpdate(target_ts=5000, replica_config=config)),
        (
            "TG:ErrConfigUnknownKey TG:ErrSinkURIMissing TG:ErrTargetTsBeforeStartTs",
            ChangefeedUpdate(sink_uri="", target_ts=1, replica_config={"filters": {}}),
        ),
        ("TG:ErrSinkURIMissing", ChangefeedUpdate(sink_uri="", replica_config=config)),
    ):
        with pytest.raises(TidegateError) as refused:
            here.operations.update("f", asked)
        assert " ".join(codes_of(refused)) == code
    assert stored(here, "f") == before


def test_rows_do_not_move_while_the_ledger_is_ahead(here: Installation, sink: str) -> None:
    here.schema = schema_of({**KEYED, "joining": "id INT PRIMARY KEY"})
    info = paused(here, sink, replica_config={"filter": {"rules": ["shop.keyed"]}})
    deliver(info, 5000)
    joins = ChangefeedUpdate(replica_config={"filter": {"rules": ["shop.*"]}})
    with pytest.raises(ReroutingRefused, match=r"table shop\.joining would join"):
        here.operations.update("f", joins)
    move(here, "f", 5000)
    assert here.operations.update("f", joins).config["filter"]["rules"] == ["shop.*"]


def test_resume_from_the_checkpoint_asks_nothing_of_the_sink(here: Installation) -> None:
    before = paused(here, "blackhole://")
    after = here.operations.resume("f")
    assert after.state is FeedState.NORMAL
    assert after.epoch > before.epoch
    assert (after.start_ts, after.incarnation) == (before.start_ts, before.incarnation)
    assert here.calls == [("revive", "main")]


def test_resume_from_elsewhere_is_checked_as_a_start_is(here: Installation, sink: str) -> None:
    before = paused(here, sink, start_ts=START_TS, target_ts=9000)
    here.kept_ts = 1500
    for ts, code in (
        (compose(here.clock.now_ms() + HOUR_MS), "TG:ErrStartTsInvalid"),
        (9000, "TG:ErrTargetTsBeforeStartTs"),
        (1200, LogCollected.code),
    ):
        with pytest.raises(TidegateError) as refused:
            here.operations.resume("f", ts)
        assert refused.value.code == code
    assert stored(here, "f") == before
    # A puller that has failed stays as it is until all is well.
    assert "revive" not in names(here.calls)
    here.calls.clear()
    after = here.operations.resume("f", 2000)
    assert names(here.calls) == ["schema_at", "check_kept", "revive"]
    assert after.incarnation > before.incarnation
    assert (after.start_ts, reached(here, "f")) == (2000, 2000)


def test_resume_from_now_takes_a_snapshot_of_this_moment(here: Installation) -> None:
    paused(here, "blackhole://")
    after = here.operations.resume("f", "now")
    assert here.calls[0] == ("schema_at", "main", 0)
    assert after.start_ts == START_TS


def test_a_changefeed_that_was_resumed_elsewhere_leaves_a_later_ledger_behind(
    here: Installation, sink: str
) -> None:
    info = paused(here, sink)
    later = info.model_copy(update={"incarnation": info.incarnation + 10 * HOUR_MS})
    deliver(later, 5000)
    assert here.operations.resume("f", 2000).incarnation > later.incarnation


def test_rewind(here: Installation, sink: str) -> None:
    info = paused(here, sink)
    with pytest.raises(RewindRefused, match="knows nothing"):
        here.operations.rewind("f")
    deliver(info, 5000)
    with pytest.raises(RewindRefused, match="has all"):
        here.operations.rewind("f")
    known = Acknowledged(here.store, here.keys, info.ledger_id, here.clock)
    known.add({DESTINATION: Position(6000)})
    known.save()
    move(here, "f", 7000)
    here.kept_ts = 5500
    with pytest.raises(LogCollected) as gone:
        here.operations.rewind("f")
    assert "restore a newer copy" in gone.value.hint
    assert (stored(here, "f").state, reached(here, "f")) == (FeedState.STOPPED, 7000)
    assert "revive" not in names(here.calls)
    here.kept_ts = 0
    after = here.operations.rewind("f")
    assert (after.state, after.incarnation) == (FeedState.NORMAL, info.incarnation)
    assert reached(here, "f") == 5000
    assert positions(info) == [5000]


def test_removed_with_its_ledger_and_metrics(here: Installation, sink: str) -> None:
    info = here.create("f", sink)
    deliver(info, 5000)
    here.calls.clear()
    here.operations.remove("f")
    assert here.store.get(here.keys.feed_info("f")) is None
    assert here.store.get(here.keys.feed_status("f")) is None
    assert positions(info) == []
    assert here.calls == [("forget_metrics", "f")]


def test_removed_with_all_that_was_ever_said_of_it(here: Installation) -> None:
    here.create("f", "blackhole://")
    said = [here.keys.ddl_decision("f", ts) for ts in range(2 * MAX_OPS + 1)]
    for first in range(0, len(said), MAX_OPS):
        here.store.txn([], [Put(key, b"{}") for key in said[first : first + MAX_OPS]])
    here.operations.remove("f")
    assert here.store.range(here.keys.ddl_decisions_prefix("f"))[1] == []
    assert here.store.get(here.keys.feed_info("f")) is None


@pytest.mark.parametrize("value", ["unreachable", "unreadable"])
def test_a_changefeed_is_removed_though_its_ledger_cannot_be_cleared(
    here: Installation, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    info = json.loads(here.create("f", "blackhole://").model_dump_json())
    info |= {"sink_uri": UNREACHABLE} if value == "unreachable" else {"format": 2}
    here.store.txn([], [Put(here.keys.feed_info("f"), json.dumps(info).encode())])
    here.operations.remove("f")
    assert here.store.get(here.keys.feed_info("f")) is None
    assert "its ledger was not cleared" in caplog.text
