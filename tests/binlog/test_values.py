"""GTID sets, XA ids, file names and statements as values."""

from __future__ import annotations

import pytest

from cdc.base.errors import TidegateError
from cdc.binlog.gtid_set import GtidSet, GtidSource, MariadbGtid, MariadbGtidPosition
from cdc.binlog.statement import (
    first_word,
    is_empty,
    is_statement_dml,
    is_step,
    is_temporary,
    statement_format,
)
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
    assert str(b.add(GtidSource(UUID), 10)) == f"{UUID}:4-10"
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
        ("/*MyApp*/ DELETE FROM t", True),
        ("/*M!100000 DELETE FROM t */", True),
        ("/*!50001 */ DELETE FROM t", True),
        ("/*!*/ DELETE FROM t", True),
        ("SET STATEMENT sort_buffer_size = 1000 FOR DELETE FROM t", True),
        ("SELECT `d`.`f`()", True),
        ("ANALYZE /* c */ FORMAT=JSON DELETE FROM t", True),
        ("ANALYZE DELETE FROM t", True),
        ("ANALYZE /* c */ TABLE t", False),
        ("ANALYZE LOCAL TABLE t", False),
        ("/*Migration 7*/ TRUNCATE TABLE t", False),
        ("", False),
    ],
)
def test_statement_dml(sql: str, dml: bool) -> None:
    """Only what changes rows."""
    assert is_statement_dml(sql) is dml


@pytest.mark.parametrize(
    ("sql", "word", "step", "empty"),
    [
        ("BEGIN", "BEGIN", True, False),
        (" /* c */ commit", "COMMIT", True, False),
        ("ROLLBACK TO `a`", "ROLLBACK", True, False),
        ("/*Migration 7*/ TRUNCATE TABLE t", "TRUNCATE", False, False),
        ("/*M*/ /**/ # c\n -- c\nDROP TABLE t", "DROP", False, False),
        ("/*M!100000 DROP TABLE t */", "DROP", False, False),
        ("/*!*/ DROP TABLE t", "DROP", False, False),
        ("/*!50001 */ DROP TABLE t", "DROP", False, False),
        # Whether a server executes the first word is not known.
        ("/*!99999 BEGIN */ DROP TABLE t", "BEGIN", False, False),
        ("SET STATEMENT a = 'x FOR BEGIN' FOR DROP TABLE t", "BEGIN", False, False),
        ("/*M", "", False, False),
        ("`a`", "", False, False),
        ("/*!50001 */", "", False, False),
        ("", "", False, True),
        ("# Dummy event replacing event type 160", "", False, True),
        ("/*Mine*/ -- yours", "", False, True),
    ],
)
def test_first_words(sql: str, word: str, step: bool, empty: bool) -> None:
    """What has no first word is nothing only where it is all comment."""
    assert (first_word(sql), is_step(sql), is_empty(sql)) == (word, step, empty)


@pytest.mark.parametrize(
    ("sql", "temporary"),
    [
        ("CREATE TEMPORARY TABLE t (a INT)", True),
        ("/* c */ CREATE /* c */ OR REPLACE TEMPORARY TABLE t (a INT)", True),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", True),
        ("CREATE /*!99999 TEMPORARY */ TABLE t (a INT)", False),
        ("CREATE TABLE temporary (a INT)", False),
    ],
)
def test_temporary_tables(sql: str, temporary: bool) -> None:
    """Of a comment that not every server executes nobody knows."""
    assert is_temporary(sql) is temporary


def test_statement_format_names_the_mend() -> None:
    """The hint is the statement to run."""
    assert "SET GLOBAL binlog_format = 'ROW'" in str(statement_format("INSERT INTO t VALUES (1)"))
