"""Rows are read from a replica, and are those that its primary's log says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.coord.snapshot_config import SnapshotConfig
from cdc.snapshot.replica import ReplicaServer, SnapshotReplicaUnfit, replica_of
from cdc.source.settings import SourceSettings
from tests import servers
from tests.servers.database import Database
from tests.servers.following import Following
from tests.sink_mysql.replay import content
from tests.snapshot.test_copying import Changes, Way
from tests.waiting import until

pytestmark = pytest.mark.real

FAMILIES = ("mariadb-11.4", "mysql-8.0")


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> Iterator[Following]:
    """A primary with a replica that follows it."""
    with ExitStack() as stack:
        primary = stack.enter_context(servers.database(request.param))
        replica = stack.enter_context(servers.database(request.param, options=["--server-id=2"]))
        made = Following(primary, replica)
        made.follow()
        yield made


def _uri(database: Database) -> str:
    return f"mysql://127.0.0.1:{database.port}"


def _ranges(database: Database) -> int:
    """How many SELECTs of a range of a key the server has carried out."""
    return int(str(database.execute("SHOW GLOBAL STATUS LIKE 'Select_range'")[0][1]))


def test_rows_of_a_replica_become_those_of_the_log(
    pair: Following, database: Callable[..., Database], tmp_path: Path, fresh_name: str
) -> None:
    target = database("mariadb-11.8")
    way = Way(pair.primary, target, fresh_name, tmp_path / "log")
    way.replica = _uri(pair.replica)
    # It lags, and falls back once more while it is read.
    pair.caught_up()
    pair.part()
    way.jobs.between += [pair.part, lambda: threading.Timer(1, pair.go_on).start()]
    before = _ranges(pair.primary), _ranges(pair.replica)
    with way.pulled as pulled:
        with Changes(way.source, way.schema) as changes:
            threading.Timer(1, pair.go_on).start()
            report = way.copy()
            more = changes.made + 50
            until(lambda: changes.made > more, "changes follow")
        assert report.error is None, report.error
        assert not way.jobs.between
        assert _ranges(pair.replica) - before[1] > 5
        # The load has none, so neither has anybody else.
        assert _ranges(pair.primary) == before[0]
        pulled.caught_up()
        way.deliver(report)
    way.jobs.close()
    assert content(target, way.schema) == content(pair.primary, way.schema)
    _refuses_what_went_its_own_way(pair, way)


def _refuses_what_went_its_own_way(pair: Following, way: Way) -> None:
    pair.caught_up()
    info, settings = way.pulled.info, way.pulled.settings
    ReplicaServer(info, way.replica, settings, threading.Event()).close()
    pair.replica.execute("CREATE DATABASE written_here")
    with pytest.raises(SnapshotReplicaUnfit, match="transactions") as refused:
        ReplicaServer(info, way.replica, settings, threading.Event())
    assert refused.value.object == "snapshot.uri 127.0.0.1"
    for other, why in ((pair.primary, "replicates from no server"),):
        with pytest.raises(SnapshotReplicaUnfit, match=why):
            ReplicaServer(info, _uri(other), settings, threading.Event())


def test_a_server_of_another_family_is_refused(
    database: Callable[..., Database], mariadb: Database
) -> None:
    mysql = database("mysql-8.0")
    info = UpstreamInfo(name="u", uri=mariadb.uri(), server_kind="mariadb")
    with pytest.raises(SnapshotReplicaUnfit, match="another family"):
        ReplicaServer(info, _uri(mysql), SourceSettings(), threading.Event())


UPSTREAM = UpstreamInfo(name="u", uri="mysql://me:S3cr%2Fet@primary:3307/?ssl-mode=required")


@pytest.mark.parametrize(
    ("uri", "reached"),
    [
        ("mysql://replica", "mysql://me:S3cr%2Fet@replica?ssl-mode=required"),
        ("mysql://you@replica:3308", "mysql://you:S3cr%2Fet@replica:3308?ssl-mode=required"),
        ("mysql://you:env:X@replica", "mysql://you:env:X@replica?ssl-mode=required"),
        ("mysql://replica/?ssl-mode=disabled", "mysql://me:S3cr%2Fet@replica/?ssl-mode=disabled"),
    ],
)
def test_the_login_is_the_upstreams_where_none_is_given(uri: str, reached: str) -> None:
    assert SnapshotConfig(uri=uri).uri == uri
    assert replica_of(UPSTREAM, uri).uri == reached


@pytest.mark.parametrize(
    "uri",
    ["replica:3306", "kafka://replica", "mysql://u:S3cret@replica", "mysql://h/db", "mysql://"],
)
def test_what_is_no_uri_or_has_a_password_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="uri") as refused:
        SnapshotConfig(uri=uri)
    assert uri == "mysql://u:S3cret@replica" or "password" not in str(refused.value)


def test_nodes_have_no_common_replica() -> None:
    several = UPSTREAM.model_copy(update={"nodes": [UPSTREAM]})
    with pytest.raises(SnapshotReplicaUnfit, match="several nodes"):
        replica_of(several, "mysql://replica")
