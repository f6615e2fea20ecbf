"""Tables that will be asked for are read while something else is waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.base.ts import compose
from cdc.changelog.reader import ChangeLog
from cdc.schema.snapshot import Schema
from cdc.schema.tokens import DDLNotUnderstood
from cdc.source.reading_ahead import tables_read_ahead
from cdc.source.statements import History
from tests.changelog.logs import open_log
from tests.waiting import until

START = compose(1_700_000_000_000)


class _Wanted:
    """Tables of database ``d``, but for ``other``."""

    def matches(self, schema: str, table: str) -> bool:
        return self.matches_schema(schema) and table != "other"

    def matches_schema(self, schema: str) -> bool:
        return schema == "d"


def _snapshot() -> dict[str, Any]:
    text = "CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`))"
    names = ("d.a", "d.b", "d.other", "e.a")
    return {
        "ts": START,
        "server": {"kind": "mysql", "version": "8.0.33"},
        "databases": {"d": {}, "e": {}},
        "tables": {**dict.fromkeys(names, text), "d.broken": "CREATE TABLE `broken` ("},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    with open_log(folder) as writer:
        writer.begin(START, {})
        writer.save_snapshot(START, _snapshot())
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which tables were read, in the order of time."""
    seen, parse = list[str](), Schema.parse

    def noted(schema: Any, key: tuple[str, str]) -> Any:
        seen.append(".".join(key))
        return parse(schema, key)

    monkeypatch.setattr(Schema, "parse", noted)
    return seen


def test_who_asks_in_the_context_finds_them_read(folder: Path, read: list[str]) -> None:
    with tables_read_ahead(folder, _Wanted()):
        until(lambda: len(read) == 3, "what is wanted is read")
        history = History(ChangeLog.open(folder), START)
    schema = history.schema_at(START)
    assert sorted(read) == ["d.a", "d.b", "d.broken"]
    assert [schema["d", name].name for name in ("a", "b")] == ["a", "b"]
    assert sorted(read) == ["d.a", "d.b", "d.broken"], "not again"
    assert schema["d", "other"].name == "other"
    with pytest.raises(DDLNotUnderstood, match="broken"):
        schema["d", "broken"]


def test_nothing_is_read_for_nobody_and_where_there_is_no_log(
    folder: Path, read: list[str], tmp_path: Path
) -> None:
    with tables_read_ahead(folder, None), tables_read_ahead(tmp_path / "none", _Wanted()):
        pass
    assert read == []
