"""MariaDB logs NEXTVAL as rows of what is no table: they are not delivered, and stop nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cdc.base.position import Position
from cdc.changelog.index import RunKind
from cdc.coord.feed_config import FeedConfig
from processor.catalog import DeliveredTables, Unfit
from tests.servers import Database
from tests.source.pulling import Pulled

_COLUMNS = (
    "next_not_cached_value BIGINT NOT NULL, minimum_value BIGINT NOT NULL,"
    " maximum_value BIGINT NOT NULL, start_value BIGINT NOT NULL, increment BIGINT NOT NULL,"
    " cache_size BIGINT UNSIGNED NOT NULL, cycle_option TINYINT UNSIGNED NOT NULL,"
    " cycle_count BIGINT NOT NULL"
)


def test_rows_of_sequences_are_of_no_table(
    mariadb: Database, schema_name: str, tmp_path: Path
) -> None:
    # Each step and the name that its rows are logged under; "" is a statement without rows.
    steps = (
        ("SELECT NEXTVAL(early)", "early"),
        ("CREATE SEQUENCE late", ""),
        ("SELECT NEXTVAL(late)", "late"),
        ("RENAME TABLE late TO later", ""),
        ("SELECT NEXTVAL(later)", "later"),
        ("ALTER TABLE early RENAME TO gone", ""),
        ("SELECT SETVAL(gone, 5000)", "gone"),
        (f"CREATE TABLE made ({_COLUMNS}) SEQUENCE=1", ""),
        ("SELECT NEXTVAL(made)", "made"),
        ("CREATE OR REPLACE SEQUENCE other", ""),
        ("SELECT NEXTVAL(other)", "other"),
    )
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    mariadb.execute(
        "CREATE SEQUENCE early",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        database=schema_name,
    )
    with Pulled(mariadb, tmp_path / "log") as p:
        mariadb.execute("DROP TABLE gone", database=schema_name)
        for sql, _ in steps:
            mariadb.execute(sql, database=schema_name)
        # A table of which the binlog does not say that it is there.
        mariadb.execute(
            "SET SESSION sql_log_bin = 0",
            "CREATE TABLE unknown (id INT PRIMARY KEY)",
            "SET SESSION sql_log_bin = 1",
            "INSERT INTO unknown VALUES (1)",
            database=schema_name,
        )
        p.caught_up()
    log, _ = p.runs()
    state = log.state
    catalog = DeliveredTables(log, state.first_ts, FeedConfig())
    catalog.refresh(state.resolved_ts)
    runs = log.runs(Position(state.first_ts), Position(state.resolved_ts), tables=catalog.ids)
    dml = runs.take(np.flatnonzero((runs.kind == RunKind.DML) & (runs.rows > 0)))
    found = []
    for i in range(len(dml)):
        entry = log.tables[int(dml.table[i])]
        if entry.schema == schema_name:
            (kind,) = catalog.in_force(dml.slice(i, i + 1)).values()
            found.append((entry.name, kind.error.code if isinstance(kind, Unfit) else kind))
    wanted = [(name, None) for _, name in steps if name]
    assert found == [*wanted, ("unknown", "TG:ErrTableNotInSchema")]
    log.close()
