"""Tables that a server prints as the log has them agree without being read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.base.ts import compose
from cdc.changelog.reader import ChangeLog
from cdc.schema import snapshot as schema_snapshot
from cdc.source.agreeing import agrees
from cdc.source.statements import History
from filter.rules import TableRules
from tests.changelog.logs import ddl, open_log

START = compose(1_700_000_000_000)
ALL = TableRules(["*.*"])
_TEXT = (
    "CREATE TABLE `{name}` (`id` int NOT NULL, PRIMARY KEY (`id`))"
    " ENGINE=InnoDB AUTO_INCREMENT={next} DEFAULT CHARSET=utf8mb4"
)


def _snapshot(**more: str) -> dict[str, object]:
    texts = {name: _TEXT.format(name=name, next=1) for name in ("a", "b")} | more
    return {
        "ts": START,
        "server": {"kind": "mysql", "version": "8.0.33"},
        "databases": {"d": {}},
        "tables": {f"d.{name}": text for name, text in texts.items()},
    }


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of tables that were read."""
    found: list[str] = []
    parse = schema_snapshot.parse_create_table

    def counted(text: str, *given: object, **how: object) -> object:
        found.append(text)
        return parse(text, *given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(schema_snapshot, "parse_create_table", counted)
    return found


def _known(folder: Path, *statements: str) -> History:
    with open_log(folder) as writer:
        writer.begin(START, {})
        writer.save_snapshot(START, _snapshot())
        for number, text in enumerate(statements, 1):
            ddl(writer, START + number, text)
        writer.commit(START + 10, {})
    log = ChangeLog.open(folder)
    try:
        return History(log, START + 10)
    finally:
        log.close()


def test_texts_that_are_the_same_are_enough(tmp_path: Path, read: list[str]) -> None:
    known = _known(tmp_path / "log").schema_at(START + 10)
    # Rows have come meanwhile: a table's next number is no part of its definition.
    assert agrees(known, _snapshot(b=_TEXT.format(name="b", next=77)), ALL)
    assert read == []


def test_a_table_that_is_printed_otherwise_is_read(tmp_path: Path, read: list[str]) -> None:
    known = _known(tmp_path / "log").schema_at(START + 10)
    spaced = _TEXT.format(name="b", next=1).replace("int NOT", "int  NOT")
    assert agrees(known, _snapshot(b=spaced), ALL)
    assert read != []
    assert not agrees(known, _snapshot(b=spaced.replace("int", "bigint")), ALL)


def test_what_statements_have_made_is_compared_as_tables(tmp_path: Path, read: list[str]) -> None:
    known = _known(tmp_path / "log", "ALTER TABLE d.a ADD x INT").schema_at(START + 10)
    assert not agrees(known, _snapshot(), ALL)
    added = _TEXT.format(name="a", next=1).replace("NULL, P", "NULL, `x` int DEFAULT NULL, P")
    assert agrees(known, _snapshot(a=added), ALL)


def test_a_table_that_statements_have_lost_agrees_with_none(
    tmp_path: Path, read: list[str]
) -> None:
    known = _known(tmp_path / "log", "ALTER TABLE d.a ADD x NOSUCHTYPE").schema_at(START + 10)
    assert not agrees(known, _snapshot(), ALL)
