"""Statements of all kinds, as the corpus of ``tests.ddl_diff`` has them, through messages alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from cdc.schema.session import Session
from tests import servers
from tests.consumer.canal_rebuild import ByWatermark, Target
from tests.consumer.history import PARTITIONS, WITH
from tests.consumer.made_topic import by_key, steps
from tests.consumer.same import assert_same
from tests.ddl_diff.split import statements
from tests.seeds import drawn

pytestmark = pytest.mark.real

CORPUS = Path(__file__).parents[1] / "ddl_diff/corpus"
_OWN = {"mysql", "information_schema", "performance_schema", "sys", "test", "ddl_diff"}


def _executed(server: servers.Database, path: Path) -> bytes:
    """Run what the server accepts of a file; the binlog that it made."""
    server.execute("FLUSH BINARY LOGS")
    first = len(server.binlogs()) - 1
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE ddl_diff")
        cursor.execute("USE ddl_diff")
        for sql in statements(path.read_text()):
            # It is not delivered, and rewrites columns that were added instantly, without
            # which MySQL exchanges no partition.
            if "OPTIMIZE PARTITION" in sql.upper():
                continue
            with suppress(pymysql.MySQLError):
                cursor.execute(sql)
                cursor.fetchall()
    head, *rest = [log.read_bytes() for log in server.binlogs()[first:]]
    return head + b"".join(log[4:] for log in rest)


def _databases(server: servers.Database) -> set[str]:
    return {str(name) for (name,) in server.execute("SHOW DATABASES")}


@pytest.mark.parametrize("name", drawn(["mariadb-11.4", "mysql-8.0"]))
def test_every_kind_of_statement_arrives(name: str) -> None:
    """Files whose tables a consumer can have: no merged tables, no sequences."""
    try:
        with servers.database(name) as source, servers.database(name) as target:
            for file in ("alter", "create", "keys", "partitions", "mixed"):
                _through(source, target, CORPUS / f"common/{file}.sql")
    except servers.Unavailable as error:
        pytest.skip(str(error))


def _through(source: servers.Database, target: servers.Database, path: Path) -> None:
    base = Session(mariadb=source.kind == "mariadb", version=(*source.version, 0, 0)[:3])
    binlog = _executed(source, path)
    with target.connect() as connection:
        consumer = ByWatermark(PARTITIONS, Target(connection))
        for step in steps(binlog, base, WITH, PARTITIONS, by_key):
            for partition, message in step.messages:
                consumer.add(partition, message)
        for partition in range(PARTITIONS):
            consumer.end(partition)
        consumer.advance()
        connection.commit()
    assert consumer.applied > 20
    made = (_databases(source) | _databases(target)) - (_OWN - {"ddl_diff"})
    for schema in made:
        assert_same(source, target, schema)
        source.execute(f"DROP DATABASE `{schema}`")
        target.execute(f"DROP DATABASE IF EXISTS `{schema}`")
