"""Whose ledger it is, as far as MySQL has words of its own for it; the rest is `tests/contract`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.base.ids import FeedId
from sink.mysql.ddl.ledger import lock_name
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import MysqlLedgerInvalid
from sink.mysql.settings import MysqlSettings
from tests.servers import Database

OURS = FeedId("aaaa", "copy", 5)


def test_incarnations_share_the_lock_of_a_change_and_installations_do_not() -> None:
    assert lock_name(OURS, 50) == lock_name(replace(OURS, incarnation=6), 50)
    assert lock_name(OURS, 50) != lock_name(FeedId("bbbb", "copy", 7), 50)


@pytest.mark.parametrize("table", ["ledger", "placement", "ddl"])
def test_a_ledger_of_an_earlier_version_is_refused(mariadb: Database, table: str) -> None:
    mariadb.execute(
        "drop database if exists tidegate",
        "create database tidegate",
        f"create table tidegate.{table} (changefeed varchar(255) primary key, ts bigint)",
    )
    settings = MysqlSettings.parse(f"{mariadb.uri()}/?worker-count=1")
    try:
        with pytest.raises(MysqlLedgerInvalid, match="earlier version"):
            MysqlDriver(settings).admit(OURS)
    finally:
        mariadb.execute("drop database tidegate")
