"""Definitions of many tables are read over several connections, where a user may have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.source import snapshot
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import take_snapshot
from filter.rules import TableRules
from tests.servers import Database

pytestmark = pytest.mark.real

_TABLES = 11


@pytest.fixture(params=["mariadb-11.4", "mysql-8.0"])
def server(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Database:
    """Tables that differ; two of them are enough for a connection."""
    made = database(request.param)
    made.execute(f"create database {fresh_name}")
    made.execute(
        *(f"create table t{n} (c{n} int default {n})" for n in range(_TABLES)), database=fresh_name
    )
    monkeypatch.setattr(snapshot, "_TABLES_EACH", 2)
    return made


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tables each connection has read."""
    found: list[int] = []
    printed = snapshot._printed

    def counted(connection: Any, names: Iterable[tuple[str, str]]) -> Any:
        texts = printed(connection, names)
        found.append(len(texts or ()))
        return texts

    monkeypatch.setattr(snapshot, "_printed", counted)
    return found


def _tables(server: Database, schema: str, uri: str = "") -> dict[str, str]:
    info = UpstreamInfo(name="u", uri=uri or server.uri(), server_kind=server.kind)
    _, found = take_snapshot(info, SourceSettings(), TableRules([f"{schema}.*"]))
    return dict(found["tables"])


def _shown(server: Database, schema: str, numbers: Iterable[int]) -> dict[str, str]:
    """As the server prints each of them."""
    return {
        f"{schema}.t{n}": server.execute(f"show create table {schema}.t{n}")[0][1] for n in numbers
    }


def test_each_connection_reads_some(server: Database, fresh_name: str, shares: list[int]) -> None:
    assert _tables(server, fresh_name) == _shown(server, fresh_name, range(_TABLES))
    assert sorted(shares) == [2, 3, 3, 3]


def test_a_user_of_one_connection_reads_all(
    server: Database, fresh_name: str, shares: list[int]
) -> None:
    user = f"one_{fresh_name[-16:]}"
    server.execute(
        f"create user {user}@'%' identified by 'pw' with max_user_connections 1",
        f"grant all on *.* to {user}@'%'",
    )
    uri = server.uri(user, "pw")
    assert _tables(server, fresh_name, uri) == _shown(server, fresh_name, range(_TABLES))
    assert shares == [_TABLES]


def test_a_table_that_goes_meanwhile_has_all_read_again(
    server: Database, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, goes = snapshot._texts, iter([f"drop table {fresh_name}.t3"])

    def behind_the_list(*given: Any) -> Any:
        for statement in goes:
            server.execute(statement)
        return texts(*given)

    monkeypatch.setattr(snapshot, "_texts", behind_the_list)
    left = [n for n in range(_TABLES) if n != 3]
    assert _tables(server, fresh_name) == _shown(server, fresh_name, left)
