"""A snapshot that statements have made is equal to following them, wherever one begins."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import DefiniteError
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.snapshot import catalog, compacted, session_of
from cdc.schema.tokens import DDLNotUnderstood
from cdc.schema.versions import Versions
from tests.ddl_diff.split import by_line

_CORPUS = Path(__file__).parents[1] / "ddl_diff" / "corpus"
_VERSIONS = {"mariadb": "11.4.2-MariaDB", "mysql": "8.0.36"}
_EVERY = 15


def first_snapshot(kind: str, *, lower_case_table_names: int = 0) -> dict[str, Any]:
    """One of SHOW CREATE TABLE: also of a table that we cannot read, and names with dots."""
    text = "CREATE TABLE `%s` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)"
    case = lower_case_table_names
    return {
        "ts": 1,
        "server": {"kind": kind, "version": _VERSIONS[kind], "lower_case_table_names": case},
        "databases": {
            "test": {"charset": "latin1", "collation": "latin1_swedish_ci"},
            "a.b": {"charset": "utf8mb4"},
        },
        "tables": {
            "test.untouched": text % "untouched" + " ENGINE=InnoDB DEFAULT CHARSET=gbk",
            "test.of_its_database": "CREATE TABLE `of_its_database` (\n  `v` varchar(9)\n)",
            "test.unreadable": "CREATE TABLE `unreadable` (\n  `v` nonsense(9) what\n)",
            "a.b.dotted": text % "dotted",
        },
        "others": [["test", "a_view"]],
    }


def shown(known: Catalog) -> dict[str, Any]:
    """All that a catalog says; a table that cannot be read by its error."""
    found: dict[str, Any] = {"case": known.lower_case_table_names}
    for key, database in known.databases.items():
        tables = {}
        for name in database.tables:
            try:
                tables[name] = known.table(database.name, name)
            except DDLNotUnderstood as e:
                tables[name] = str(e)
        place = (database.name, database.charset, database.collation)
        found[key] = (place, database.others, database.tables.count, tables)
    return found


def lost(versions: Versions) -> list[Any]:
    return sorted((name, ts, str(error)) for name, ts, error in versions.lost)


def again(snapshot: dict[str, Any], versions: Versions, ts: int) -> dict[str, Any]:
    """A snapshot at ``ts``, as a reader finds it."""
    made: dict[str, Any] = json.loads(json.dumps(compacted(snapshot, versions.at(ts), ts)))
    return made


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (folder.name if folder.name != "common" else kind, path)
        for kind in _VERSIONS
        for folder in (_CORPUS / "common", _CORPUS / kind)
        for path in sorted(folder.glob("*.sql"))
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.parent.name}-{value.stem}",
)
def test_each_snapshot_of_a_long_history_continues_the_one_before(kind: str, path: Path) -> None:
    snapshot = first_snapshot(kind)
    base = session_of(snapshot["server"])
    session = Session(mariadb=base.mariadb, version=base.version, default_schema="test")
    whole = Versions(catalog(snapshot), 1)
    parts = Versions(catalog(snapshot), 1)
    for ts, sql in enumerate(by_line(path.read_text()), 2):
        try:
            changes = read_ddl(sql, session)
        except DefiniteError:
            continue
        for versions in (whole, parts):
            versions.advance(ts, changes)
        if ts % _EVERY == 0:
            snapshot = again(snapshot, parts, ts)
            parts = Versions(catalog(snapshot), ts, parts.lost)
            assert shown(parts.at(ts)) == shown(whole.at(ts))
            assert lost(parts) == lost(whole)
    assert shown(parts.at(ts)) == shown(whole.at(ts))
    assert shown(catalog(again(snapshot, parts, ts))) == shown(whole.at(ts))
    # Beside what the first snapshot had.
    assert {name for _, name in whole.at(ts)} - {
        name.rpartition(".")[2] for name in first_snapshot(kind)["tables"]
    }


@pytest.mark.parametrize("case", [0, 1, 2])
def test_what_no_statement_has_changed_stays_text(case: int) -> None:
    snapshot = first_snapshot("mysql", lower_case_table_names=case)
    session = Session(default_schema="test", lower_case_table_names=case)
    versions = Versions(catalog(snapshot), 1)
    for ts, sql in enumerate(
        (
            "ALTER DATABASE test DEFAULT CHARACTER SET utf8mb4",
            "CREATE TABLE Made (id int)",
            "CREATE DATABASE Db",
            "CREATE TABLE Db.Made (id int)",
            "CREATE VIEW Db.Seen AS SELECT 1",
        ),
        2,
    ):
        assert versions.advance(ts, read_ddl(sql, session)) is None
    found = again(snapshot, versions, 9)
    assert len(found["texts"]) == 4
    assert [value["name"].lower() for _, value in found["values"]] == ["made", "made"]
    loaded = catalog(found)
    assert shown(loaded) == shown(versions.at(9))
    # Its text says nothing of a character set, so it has that of its database when it was made.
    kept = loaded.table("test", "of_its_database")
    assert kept is not None
    assert kept.columns[0].charset == "latin1"
    assert again(found, Versions(loaded, 9), 10) == {**found, "ts": 10}


def test_tables_of_a_snapshot_share_equal_columns() -> None:
    """Many shards that an ALTER has changed must not need more than those of the first snapshot."""
    snapshot = first_snapshot("mysql")
    session = Session(default_schema="test")
    versions = Versions(catalog(snapshot), 1)
    for ts in range(2, 4):
        sql = f"CREATE TABLE shard_{ts} (id int PRIMARY KEY, v varchar(20))"
        assert versions.advance(ts, read_ddl(sql, session)) is None
    loaded = catalog(again(snapshot, versions, 3))
    one, two = (loaded.table("test", f"shard_{ts}") for ts in range(2, 4))
    assert one is not None
    assert two is not None
    assert all(a is b for a, b in zip(one.columns, two.columns, strict=True))
    with suppress(DDLNotUnderstood):
        loaded.table("test", "unreadable")
        raise AssertionError("it was read")
