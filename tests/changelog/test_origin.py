"""Positions of changefeeds, and what a log makes of them that takes another one's place."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import Position, Stand, TransactionName
from cdc.changelog import origin
from cdc.changelog.errors import LogCorrupt, LogMissing, LogReplaced
from cdc.changelog.origin import Origin, Pin, PinsDisagree, pinned
from cdc.changelog.reader import ChangeLog
from tests.changelog.logs import StillClock, dml, open_log

A = TransactionName(100, "0-1", 7, 1)
B = TransactionName(200, "0-1", 8, 1)


def test_positions_of_one_transaction_are_one_pin() -> None:
    assert pinned([(100, A), (150, A), (120, A), (200, B)], 50) == (
        50,
        (Pin(A, 150), Pin(B, 200)),
    )


def test_what_lies_before_the_log_only_bounds_it() -> None:
    """A position may be later than the last transaction before the log's begin."""
    assert pinned([(150, A), (200, B)], 120) == (150, (Pin(B, 200),))
    assert pinned([(90, TransactionName.none_since(80))], 100) == (100, ())


@pytest.mark.parametrize(
    "named",
    [
        # A position says that all up to 250 lies before B, which is at 200.
        [(250, A), (200, B)],
        # No transaction since 300, where another position names one.
        [(400, TransactionName.none_since(300)), (200, B)],
    ],
)
def test_positions_that_contradict_each_other_are_refused(
    named: list[tuple[int, TransactionName]],
) -> None:
    with pytest.raises(PinsDisagree):
        pinned(named, 50)


def test_kept_with_the_log(tmp_path: Path) -> None:
    assert origin.load(tmp_path) is None
    made = Origin.new(60, (Pin(A, 150), Pin(B, 200)))
    origin.save(tmp_path, made)
    assert origin.load(tmp_path) == made
    assert made.holds(150, A, 50)
    assert made.holds(120, A, 50)
    assert not made.holds(151, A, 50)
    assert not made.holds(100, B, 50)
    # Nothing has come since before the log's begin.
    assert made.holds(60, TransactionName(40, "0-1", 5, 1), 50)
    assert not made.holds(61, TransactionName(40, "0-1", 5, 1), 50)
    file = tmp_path / "origin"
    file.write_bytes(file.read_bytes().replace(b"150", b"151"))
    with pytest.raises(LogCorrupt):
        origin.load(tmp_path)


def test_a_stand_keeps_the_names_that_it_needs() -> None:
    held = {"s.t": Position(100, 3)}
    stand = Stand(250, held=held, transactions={100: A, 250: B, 300: B})
    assert stand.transactions == {100: A, 250: B}
    assert stand.unnamed() == []
    again = Stand.from_json(250, stand.row, stand.to_json())
    assert (again, again.held, again.transactions) == (stand, held, stand.transactions)
    # As an earlier version has written it.
    old = Stand.from_json(250, 3, {"s.t": [100, 3]})
    assert old.unnamed() == [100, 250]
    assert Stand.from_json(250, 3, None).unnamed() == [250]


def test_a_reader_that_is_behind_retention_does_not_take_it_for_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path, StillClock(), segment_bytes=4096, keep_s=0) as writer:
        writer.begin(1, {})
        with closing(ChangeLog.open(tmp_path)) as log:
            assert log.transaction_at(1) == TransactionName.none_since(1)
            for ts in range(2, 400):
                dml(writer, ts, [(0, 1)], sequence=ts * 10)
                writer.commit(ts, {})
            log.refresh()
            assert log.transaction_at(300) == TransactionName(300, "", 3000, -1)
            assert log.transaction_at(1) == TransactionName.none_since(1)
            gone = writer.collect(399)
            assert len(gone) > 2
            # Its files are gone, and the reader has not looked since.
            assert log.state.first_ts == 1
            log.forget_below(399)
            assert log.transaction_at(writer.state.first_ts) is None
            assert log.state.first_ts == writer.state.first_ts
            assert log.transaction_at(399) == TransactionName(399, "", 3990, -1)


def test_names_as_people_read_them() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert str(A) == "0-1-7"
    assert str(TransactionName(1, uuid, 5, 2)) == f"{uuid}:5"
    assert str(TransactionName(1, f"{uuid}:tag", 5, 2)) == f"{uuid}:tag:5"
    assert str(TransactionName(1, "", 4711, 2)) == "file 2:4711"


def test_a_reader_does_not_go_on_in_another_log(tmp_path: Path) -> None:
    """Its tables, indexes and positions are those of the log that it has opened."""
    folder = tmp_path / "log"
    with open_log(folder) as writer:
        writer.begin(100, {})
        origin.save(folder, Origin("one"))
        dml(writer, 200, [(0, 1)])
        writer.commit(200, {})
    reader = ChangeLog.open(folder)
    kept = reader.state
    folder.rename(tmp_path / "before")
    with pytest.raises(LogMissing):
        reader.refresh()
    with open_log(folder) as writer:
        writer.begin(100, {})
        # Before its id is there it is another one already.
        with pytest.raises(LogReplaced):
            reader.refresh()
        origin.save(folder, Origin("other"))
        dml(writer, 300, [(0, 1)])
        writer.commit(300, {})
    for _ in range(2):
        with pytest.raises(LogReplaced):
            reader.refresh()
    assert reader.state is kept
    reader.close()
    # It is not the manifest's file that tells: the same log writes another one.
    with closing(ChangeLog.open(folder)) as again:
        for ts in (400, 500):
            with open_log(folder) as writer:
                dml(writer, ts, [(0, 1)])
                writer.commit(ts, {})
            assert again.refresh().resolved_ts == ts
