"""GTID sets, XA ids, file names and statements as values."""

from __future__ import annotations

import pytest

from cdc.base.errors import TidegateError
from cdc.binlog.file_names import FileName
from cdc.binlog.gtid_set import GtidSet, MariadbGtid, MariadbGtidPosition, Source
from cdc.binlog.statement_dml import is_statement_dml, statement_format
from cdc.binlog.xa import Xid, parse_statement
from tests.binlog.sample import UUID


def test_gtid_set_algebra_and_both_forms() -> None:
    """Union, difference and containment agree; text and bytes come back the same."""
    a = GtidSet.parse(f"{UUID}:1-5:8:tag_a:1-3")
    b = GtidSet.parse(f"{UUID}:4-9")
    assert str(a.union(b)) == f"{UUID}:1-9:tag_a:1-3"
    assert str(a.subtract(b)) == f"{UUID}:1-3:tag_a:1-3"
    assert a.union(b).contains(a)
    assert not a.contains(b)
    assert str(b.add(Source(UUID), 10)) == f"{UUID}:4-10"
    for each in (a, b, GtidSet()):
        assert GtidSet.decode(each.encode()) == each
        assert GtidSet.parse(str(each)) == each


@pytest.mark.parametrize("text", ["x:1", UUID, f"{UUID}:0", f"{UUID}:5-3", f"{UUID}:1-2-3"])
def test_bad_gtid_sets_are_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(TidegateError):
        GtidSet.parse(text)


def test_mariadb_position_advances_by_domain() -> None:
    """Each domain moves alone."""
    position = MariadbGtidPosition.parse("0-1-100,7-2-3").advance(MariadbGtid(7, 9, 4))
    assert str(position) == "0-1-100,7-9-4"
    assert position.reached(MariadbGtid(0, 5, 100))
    assert not position.reached(MariadbGtid(1, 1, 1))


def test_xa_ids_match_however_they_are_written() -> None:
    """Prepare and commit name one value."""
    xid = Xid(1, b"a'1", b"q")
    for text in (f"XA COMMIT {xid}", "xa commit 'a''1', 'q'", "XA COMMIT 0x612731,X'71',1;"):
        assert parse_statement(text) == ("COMMIT", xid)
    assert parse_statement("COMMIT") is None


def test_files_past_a_million_keep_their_order() -> None:
    """By number, not by text."""
    last, first = FileName.parse("bin.999999"), FileName.parse("bin.1000000")
    assert last < first
    assert last.next() == first
    assert str(first) == "bin.1000000"


@pytest.mark.parametrize(
    ("sql", "dml"),
    [
        ("INSERT INTO t VALUES (1)", True),
        ("/* c */ -- x\n update t set a=1", True),
        ("/*!50001 DELETE FROM t */", True),
        ("REPLACE t VALUES (1)", True),
        ("CREATE TABLE insert_log (a INT)", False),
        ("DROP TABLE t", False),
        ("BEGIN", False),
    ],
)
def test_statement_dml(sql: str, dml: bool) -> None:
    """Only what changes rows."""
    assert is_statement_dml(sql) is dml


def test_statement_format_names_the_mend() -> None:
    """The hint is the statement to run."""
    assert "SET GLOBAL binlog_format = 'ROW'" in str(statement_format("INSERT INTO t VALUES (1)"))
