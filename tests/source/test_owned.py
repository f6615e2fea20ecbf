"""GTIDs that sessions own, of several sources at once: upstreams that follow several servers."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from cdc.binlog.gtid_set import GtidSet
from cdc.source.server_standing import gtids_owned
from tests import servers

# First digits that could be those of a connection's number, and such that could not.
_SOURCES = (
    "00000001-0000-0000-0000-000000000001",
    "12345678-0000-0000-0000-000000000002",
    "ab000003-0000-0000-0000-000000000003",
)


@pytest.mark.real
@pytest.mark.parametrize("server", ["mysql-5.7", "mysql-8.0", "mysql-9.7"])
def test_of_several_sources(server: str) -> None:
    names = [f"{source}:{n}" for source in _SOURCES for n in (5, 7)]
    if server == "mysql-9.7":
        names.append(f"{_SOURCES[0]}:tag:9")
    with servers.database(server) as db, ExitStack() as held:
        db.execute("CREATE DATABASE d")
        for name in names:
            # So many that connections have numbers of one digit and of two.
            one = held.enter_context(closing(db.connect()))
            with one.cursor() as cursor:
                cursor.execute(f"SET gtid_next = '{name}'")
        with closing(db.connect()) as asked:
            assert GtidSet.parse(gtids_owned(asked)) == GtidSet.parse(",".join(names))
