"""The fast part of ``python -m tests.sink_mysql_ddl.corpus``."""

from __future__ import annotations

from typing import Any

import pytest

from sink.mysql.ddl import carrying, rewrite
from tests import servers
from tests.seeds import drawn, seed
from tests.sink_mysql_ddl.corpus import CORPUS, Result, Run, run

_WITHIN = ("common/mixed.sql", "common/keys.sql")
# What a server shows of its own accord.
_OWN = {"mariadb-11.4": ("mariadb/shown.sql",)}
_ACROSS = ("common/tables.sql", "common/partitions.sql")
_RANDOM = 20


def _run(one: str, other: str, files: tuple[str, ...]) -> tuple[Result, Result]:
    try:
        return run(one, other, [CORPUS / file for file in files], random=_RANDOM, seed=seed())
    except servers.Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.real
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_within_a_family_every_statement_arrives(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    written, random = _run(name, name, (*_WITHIN, *_OWN.get(name, ())))
    for result in (written, random):
        assert (result.failed, result.different, result.refused) == ([], [], [])
        assert result.behind == 0
    assert written.equal >= 100
    assert random.equal >= _RANDOM // 4
    # Our own judgement of what the target shows agrees.
    assert not [r for r in caplog.records if r.name == carrying.__name__]


@pytest.mark.real
@pytest.mark.parametrize(
    ("one", "other"),
    drawn([("mariadb-11.4", "mysql-8.0"), ("mysql-8.0", "mariadb-11.4")], names=2),
)
def test_between_families_it_arrives_or_is_refused(one: str, other: str) -> None:
    written, random = _run(one, other, _ACROSS)
    for result in (written, random):
        assert (result.failed, result.different) == ([], [])
        assert all(why for _, why in result.refused)
    # MERGE tables and an exchanged partition, and what is about those tables then.
    assert len(written.refused) <= 2, written.refused
    assert written.behind <= 2
    assert written.equal >= 131
    # So few drawn statements have no shares worth a bar of their own.
    assert random.equal >= _RANDOM // 4, random


# What is wrong in the statement of each table, and what has to differ then.
_WRONG = {
    "t1": ("ON DELETE CASCADE", "", "foreign keys"),
    "t2": ("REFERENCES `broken`.`p`", "REFERENCES `broken`.`q`", "foreign keys"),
    "t3": ("CHECK (a > 1)", "CHECK (a > 2)", "checks"),
    "t4": ("DEFAULT 5", "DEFAULT 6", "default"),
}


@pytest.mark.real
def test_a_broken_rewrite_is_seen(
    monkeypatch: pytest.MonkeyPatch, mariadb: servers.Database, mysql: servers.Database
) -> None:
    right = rewrite.translate

    def broken(*args: Any) -> tuple[str, ...]:
        old, new, _ = _WRONG.get(args[-1][1], ("", "", ""))
        return tuple(statement.replace(old, new) for statement in right(*args))

    monkeypatch.setattr(rewrite, "translate", broken)
    run = Run(mariadb, mysql)
    run.one("CREATE DATABASE broken")
    run.one("CREATE TABLE broken.p (a int PRIMARY KEY)")
    run.one("CREATE TABLE broken.q (a int PRIMARY KEY)")
    for name in ("right", *_WRONG):
        run.one(
            f"CREATE TABLE broken.`{name}` (a int DEFAULT 5, CHECK (a > 1), FOREIGN KEY (a)"
            " REFERENCES broken.p (a) ON DELETE CASCADE)"
        )
    run.one("DROP DATABASE broken")
    assert run.result.failed == []
    found = [why for _, why in run.result.different]
    assert [
        f"broken.{name}" in why and seen in why
        for (name, (_, _, seen)), why in zip(_WRONG.items(), found, strict=True)
    ] == [True] * len(_WRONG)
