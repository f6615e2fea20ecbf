"""sql_mode by name, as servers set it and their binlogs carry it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from cdc.binlog.query import Query
from cdc.schema.sql_mode import SqlMode, mode_names
from tests.servers import Database
from tests.source.pulling import Pulled

pytestmark = pytest.mark.real

# Bundles, which come with what they stand for; what only SHOW obeys; rights.
_LEFT_OUT = {
    *("ANSI", "TRADITIONAL", "POSTGRESQL", "DB2", "MYSQL323", "MYSQL40"),
    *("NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "NO_FIELD_OPTIONS", "NO_AUTO_CREATE_USER"),
}


def _settings(db: Database) -> dict[str, str]:
    """Every mode that the server takes, and what it makes of it."""
    found = {}
    with db.connect() as connection, connection.cursor() as cursor:
        for name in [*SqlMode.__members__, *_LEFT_OUT]:
            try:
                cursor.execute(f"SET SESSION sql_mode = '{name}'")
            except pymysql.err.OperationalError:
                # A mode that this server does not have.
                continue
            cursor.execute("SELECT @@sql_mode")
            row = cursor.fetchone()
            assert row is not None
            found[name] = str(row[0])
    return found


@pytest.mark.parametrize(("name", "least"), [("mariadb-11.4", 29), ("mysql-8.0", 20)])
def test_names_are_the_servers(
    database: Callable[..., Database], tmp_path: Path, fresh_name: str, name: str, least: int
) -> None:
    db = database(name)
    settings = _settings(db)
    assert len(settings) >= least
    with Pulled(db, tmp_path / "log") as p:
        db.execute(f"CREATE DATABASE {fresh_name}")
        for i, mode in enumerate(settings):
            db.execute(
                f"SET SESSION sql_mode = '{mode}'",
                f"CREATE TABLE {fresh_name}.t{i} (i INT)",
                "SET SESSION sql_mode = DEFAULT",
            )
        p.caught_up()
        queries = [Query.parse(event[19:-4]) for event in p.events() if event[4] == 2]
    made = [query for query in queries if f"{fresh_name}.t" in query.sql]
    assert len(made) == len(settings)
    for query, (mode, shown) in zip(made, settings.items(), strict=True):
        bits = query.status().sql_mode
        assert bits is not None
        ours = mode_names(bits, mariadb=db.kind == "mariadb", version=db.version)
        assert set(ours) == set(shown.split(",")) - _LEFT_OUT, mode
