"""Settings, and what a stream's writer and ledger refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.base.errors import InvalidError
from cdc.base.ids import FeedId
from cdc.binlog.events import EventType
from cdc.binlog.gtid import Gtid
from cdc.binlog.query import Query, StatusCode, status_parts
from cdc.binlog.reader import BinlogReader
from cdc.binlog.writer import format_description
from cdc.rows.transactions import GtidName
from sink.binlog.errors import BinlogFileLost, BinlogGtidTagged
from sink.binlog.groups import begin
from sink.binlog.ledger import StreamLedger
from sink.binlog.settings import BinlogSettings
from sink.binlog.tail import Piece, Tail
from sink.binlog.writer import StreamWriter

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_FORM = format_description("8.0.36")


@pytest.fixture
def ledger(tmp_path: Path) -> StreamLedger:
    """Return a ledger in its first epoch."""
    made = StreamLedger(tmp_path, FeedId("i", "feed", 1), "binlog")
    made.claim(1)
    return made


def write(ledger: StreamLedger, tail: Tail, *names: GtidName | None, size: int = 1) -> Tail:
    writer = StreamWriter(
        ledger.parts, "rows-1-0", tail, 4096, ledger.first_number, ledger.file_name
    )
    for number, name in enumerate(names, 1):
        ts = tail.ts + (number << 18)
        writer.begin(_FORM, name, timestamp=7, server_id=9, ts=ts, statement=False)
        writer.event(EventType.QUERY, begin())
        writer.event(EventType.ROWS_QUERY, bytes(size))
        writer.event(EventType.XID, bytes(8))
        writer.end()
    writer.finish()
    ledger.place(writer.pieces)
    return writer.tail


def test_a_length_is_that_of_the_transaction(ledger: StreamLedger, tmp_path: Path) -> None:
    """Also of one that was written out before its end was known."""
    sizes = (1, 3 << 20)
    tail = Tail()
    for number, size in enumerate(sizes):
        tail = write(ledger, tail, GtidName(UUID, 5 + number), size=size)
    # The second did not begin in a new file: the first one is not full.
    events = list(BinlogReader(tmp_path / "binlog.000001"))
    told = [e for e in events if e.type is EventType.GTID]
    ends = [e.header.next_position for e in events if e.type is EventType.XID]
    lengths = [Gtid.parse(e.body).transaction_length for e in told]
    assert lengths == [end - e.offset for e, end in zip(told, ends, strict=True)]
    assert [str(Gtid.parse(e.body)) for e in told] == [f"{UUID}:5", f"{UUID}:6"]
    assert ends[-1] == tail.end == (tmp_path / "binlog.000001").stat().st_size


def test_no_name_is_there_twice(ledger: StreamLedger, tmp_path: Path) -> None:
    name = GtidName(UUID, 5)
    tail = write(ledger, Tail(), name, name)
    assert tail.gtids == {UUID: (5, 5)}
    types = [e.type for e in BinlogReader(tmp_path / "binlog.000001")]
    assert types.count(EventType.GTID) == types.count(EventType.ANONYMOUS_GTID) == 1


def test_what_the_filter_has_left_out_counts_as_passed() -> None:
    tail = Tail(gtids={UUID: (5, 9)})
    assert str(tail.previous(_FORM.dialect)) == f"{UUID}:5-9"
    assert tail.behind(GtidName(UUID, 7)) == {UUID: (5, 9)}
    moved = Tail(gtids={"0-1": (1, 4), "0-2": (2, 3)}).behind(GtidName("0-1", 8))
    listed = Tail(gtids=moved).previous(format_description("11.4.2-MariaDB").dialect)
    assert [str(g) for g in listed.gtids] == ["0-2-3", "0-1-8"]  # type: ignore[union-attr]
    assert Tail.from_json(Tail(3, 4, "8", 1, moved, GtidName("a", 1), 9).to_json()) == Tail(
        3, 4, "8", 1, moved, GtidName("a", 1), 9
    )


def test_a_tag_is_refused_by_name(ledger: StreamLedger) -> None:
    with pytest.raises(BinlogGtidTagged, match="tags"):
        write(ledger, Tail(), GtidName(f"{UUID}:batch", 1))


def test_a_file_that_has_lost_bytes_is_not_written_to(ledger: StreamLedger, tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(bytes(99))
    (ledger.parts / "p").write_bytes(b"x")
    with pytest.raises(BinlogFileLost, match="byte 100"):
        ledger.place([Piece("p", 1, 100, 1)])
    ledger.place([Piece("p", 1, 99, 1)])
    # Somebody else has done it.
    ledger.place([Piece("p", 1, 99, 1)])
    assert (tmp_path / "binlog.000001").read_bytes() == bytes(99) + b"x"


def test_status_variables_are_told_apart() -> None:
    raw = bytes((StatusCode.FLAGS2, 0, 0, 0, 0, StatusCode.CHARSET, 45, 0, 8, 0, 8, 0))
    assert [code for code, _ in status_parts(raw)] == [StatusCode.FLAGS2, StatusCode.CHARSET]
    assert b"".join(part for _, part in status_parts(raw + b"\xfa12")) == raw + b"\xfa12"
    assert Query.parse(begin()).sql == "BEGIN"


@pytest.mark.parametrize(
    "uri",
    [
        "binlog:///",
        "binlog://host/a",
        "binlog:///a/../b",
        "binlog:///a?name=.hidden",
        "binlog:///a?name=b%2Fc",
        "binlog:///a?protocol=canal-json",
        "binlog:///a?file-size=1",
        "binlog:///a?retention=old",
        "binlog:///a?retension=1h",
    ],
)
def test_what_cannot_be_is_refused(uri: str) -> None:
    with pytest.raises(InvalidError) as raised:
        BinlogSettings.parse(uri)
    assert raised.value.hint


def test_the_uri_wins() -> None:
    config = {"binlog_config": {"name": "x"}, "retention": "1h"}
    settings = BinlogSettings.parse("binlog:///a%20b?retention=2h", config)
    assert (str(settings.folder), settings.retention, settings.name) == ("/a b", 7200, "x")
