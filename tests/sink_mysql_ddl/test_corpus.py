"""The fast part of ``python -m tests.sink_mysql_ddl.corpus``."""

from __future__ import annotations

import pytest

from sink.mysql.ddl import carrying
from tests import servers
from tests.sink_mysql_ddl.corpus import CORPUS, Result, run

_WITHIN = ("common/mixed.sql", "common/keys.sql")
_ACROSS = ("common/tables.sql", "common/partitions.sql")


def _run(one: str, other: str, files: tuple[str, ...]) -> Result:
    try:
        return run(one, other, [CORPUS / file for file in files], random=20, seed=7)
    except servers.Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.real
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_within_a_family_every_statement_arrives(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = _run(name, name, _WITHIN)
    assert (result.failed, result.different, result.refused) == ([], [], [])
    assert result.equal >= 110
    # Our own judgement of what the target shows agrees.
    assert not [r for r in caplog.records if r.name == carrying.__name__]


@pytest.mark.real
@pytest.mark.parametrize(
    ("one", "other"), [("mariadb-11.4", "mysql-8.0"), ("mysql-8.0", "mariadb-11.4")]
)
def test_between_families_it_arrives_or_is_refused(one: str, other: str) -> None:
    result = _run(one, other, _ACROSS)
    assert (result.failed, result.different) == ([], [])
    assert all(why for _, why in result.refused)
    assert len(result.refused) <= result.accepted // 10
    assert result.equal >= 110
