"""An upstream is promoted, or has gone back: what was pulled goes on whole, or it says why not."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc.base.errors import ErrorKind, TidegateError
from tests import servers
from tests.servers.database import Database
from tests.servers.following import Following
from tests.servers.proxy import Proxy
from tests.source.pulling import Pulled

pytestmark = pytest.mark.real

FAMILIES = ("mariadb-11.4", "mysql-8.0")
_T = "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))"
_LAST = "SELECT MAX(id) FROM d.t"


@dataclass(frozen=True)
class _Pair(Following):
    """A primary, its replica, and the address that both are known by."""

    proxy: Proxy

    @property
    def uri(self) -> str:
        return f"mysql://root@127.0.0.1:{self.proxy.port}/?ssl-mode=disabled"

    def promote(self) -> None:
        """The replica takes the primary's place, behind the same address."""
        self.part()
        self.replica.execute(f"RESET {self.word} ALL")
        self.primary.kill()
        self.proxy.switch(self.replica.port)


@pytest.fixture(params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> Iterator[_Pair]:
    """A primary with a replica that follows it."""
    with ExitStack() as stack:
        primary = stack.enter_context(servers.database(request.param))
        replica = stack.enter_context(servers.database(request.param, options=["--server-id=2"]))
        made = _Pair(primary, replica, stack.enter_context(Proxy(primary.port)))
        made.follow()
        primary.execute("CREATE DATABASE d", _T)
        yield made


def _insert(database: Database, *ids: int) -> None:
    database.execute(*(f"INSERT INTO d.t VALUES ({i}, 'v')" for i in ids))


def _rows(pulled: Pulled) -> Counter[int]:
    """How often each transaction of one row stands in the log, by its ts."""
    log, runs = pulled.runs()
    found = Counter(runs.commit_ts[runs.kind == 1].tolist())
    log.close()
    return found


def test_a_promoted_replica_is_seen_to_be_another_server(pair: _Pair, tmp_path: Path) -> None:
    """It has all that the primary had, but it is not known to: files and offsets are its own."""
    with Pulled(pair.primary, tmp_path / "log", uri=pair.uri, silence_s=5) as p:
        _insert(pair.primary, 1, 2, 3)
        p.caught_up()
        p.pause()
        _insert(pair.primary, 4, 5)
        pair.caught_up()
        pair.promote()
        _insert(pair.replica, 6)
        p.resume()
        assert _definite(p).code == "TG:ErrUpstreamReset"
        assert p.rows() == 3


def test_an_upstream_that_is_killed_and_started_again_goes_on(pair: _Pair, tmp_path: Path) -> None:
    with Pulled(pair.primary, tmp_path / "log", uri=pair.uri, silence_s=5) as p:
        for i in range(3):
            _insert(pair.primary, 2 * i)
            pair.primary.kill()
            pair.primary.start()
            pair.proxy.switch(pair.primary.port)
            _insert(pair.primary, 2 * i + 1)
        p.caught_up()
        assert p.rows() == 6
        assert set(_rows(p).values()) == {1}


def test_a_promoted_replica_that_lacks_what_was_pulled_is_an_error(
    pair: _Pair, tmp_path: Path
) -> None:
    with Pulled(pair.primary, tmp_path / "log", uri=pair.uri, silence_s=5) as p:
        _insert(pair.primary, 1, 2)
        p.caught_up()
        pair.caught_up()
        pair.part()
        _insert(pair.primary, 3, 4)
        p.caught_up()
        pair.promote()
        _definite(p)
        assert p.rows() == 4


def test_a_promoted_replica_that_went_its_own_way_is_an_error(pair: _Pair, tmp_path: Path) -> None:
    """It lacks what was pulled, and has as much of its own: as many transactions, other ones."""
    with Pulled(pair.primary, tmp_path / "log", uri=pair.uri, silence_s=5) as p:
        _insert(pair.primary, 1, 2)
        p.caught_up()
        pair.caught_up()
        pair.part()
        _insert(pair.primary, 3, 4)
        p.caught_up()
        p.pause()
        pair.promote()
        _insert(pair.replica, 13, 14, 15)
        p.resume()
        _definite(p)
        assert p.rows() == 4


@pytest.mark.parametrize("name", FAMILIES)
def test_an_upstream_whose_host_lost_what_was_pulled_is_an_error(name: str, tmp_path: Path) -> None:
    """``sync_binlog=0`` and a power loss: an older state of its files, the same server."""
    with servers.database(name, folder=tmp_path / "server") as db:
        db.execute("CREATE DATABASE d", _T)
        with Pulled(db, tmp_path / "log", silence_s=5) as p:
            _insert(db, 1, 2)
            p.caught_up()
            db.stop()
            shutil.copytree(db.datadir, tmp_path / "older")
            db.start()
            _insert(db, 3, 4)
            p.caught_up()
            db.kill()
            shutil.rmtree(db.datadir)
            shutil.copytree(tmp_path / "older", db.datadir)
            db.start()
            assert db.execute(_LAST) == [(2,)]
            _definite(p)
            assert p.rows() == 4


def _definite(p: Pulled) -> TidegateError:
    """The puller has ended with an error that no retry mends, and that says what to do."""
    error = p.failed(60)
    assert isinstance(error, TidegateError), error
    assert error.kind in (ErrorKind.DEFINITE, ErrorKind.INVALID), error
    assert error.hint
    return error
