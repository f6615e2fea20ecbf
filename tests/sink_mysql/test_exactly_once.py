"""The ledger and the rows agree whatever breaks: our process, the connection, our leadership."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import ErrorKind
from cdc.base.position import START, Position
from sink.errors import FencedEpoch
from sink.mysql.deliverer import TARGET, DeliverState, MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import MysqlCommitLost, MysqlCommitUnknown, TargetDuplicateKey
from sink.mysql.settings import MysqlSettings
from tests.codec.binlog_rows import TS
from tests.seeds import drawn
from tests.servers.proxy import Proxy
from tests.sink_mysql.replay import FEED, Replay, content, recovered, same_schema, settings_of

EVENTS = 210
_PAIRS = [("mariadb-11.4", "mariadb-11.8"), ("mysql-8.0", "mysql-9.7")]
_TABLES = (
    "create table a (id int primary key, v varchar(40), n int, unique key (n))",
    "create table nokey (v int, w varchar(40))",
)


@pytest.fixture(autouse=True)
def _no_ledger(database: Any) -> None:
    for name in {target for _, target in _PAIRS}:
        database(name).execute("drop database if exists tidegate")


def _load(source: Any, target: Any, schema: str) -> Replay:
    """Single-row transactions that fail, or show, when one of them is applied twice."""
    with source.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run(f"create database {schema}")
        run(f"use {schema}")
        for sql in _TABLES:
            run(sql)
        run("flush binary logs")
        for i in range(EVENTS // 3):
            run(f"insert into a values ({i}, 'row {i}', {i})")
            run(f"insert into nokey values ({i % 5}, 'w')")
            run(
                f"update a set n = n + 1000 where id = {i // 2}"
                if i % 2
                else f"delete from nokey where v = {i % 5} limit 1"
            )
    same_schema(source, target, schema)
    replay = Replay.of(source, schema)
    replay.stamp()
    assert len(replay.runs) == EVENTS
    return replay


def _ledger(server: Any) -> list[tuple[Any, ...]]:
    return server.execute("select bucket, epoch, ts, `row` from tidegate.ledger")


def _child(target: Any, epoch: int, path: Path, ledger: str = "yes") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.sink_mysql.crash_child"]
    return subprocess.Popen(
        [*command, target.uri(), str(epoch), str(path), ledger],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("one", "other"), drawn(_PAIRS, names=2))
def test_killed_again_and_again(
    database: Any, fresh_name: str, tmp_path: Path, one: str, other: str
) -> None:
    source, target = database(one), database(other)
    path = tmp_path / "replay"
    path.write_bytes(pickle.dumps(_load(source, target, fresh_name)))
    stood = [START.ts]
    for epoch, lines in enumerate((1, 2, 5, 4, 7), 1):
        child = _child(target, epoch, path)
        assert child.stdout is not None
        for _ in range(lines):
            child.stdout.readline()
        child.kill()
        child.communicate()
        stood.append(max([0, *(row[2] or 0 for row in _ledger(target))]))
    assert stood == sorted(stood)
    assert len(set(stood)) >= 4, "the kills hit nothing"
    child = _child(target, 9, path)
    out, err = child.communicate(timeout=120)
    assert out.endswith("end\n"), err
    assert content(target, fresh_name) == content(source, fresh_name)
    assert [row[:2] for row in _ledger(target)] == [(0, 9)]


def test_without_reading_the_ledger_a_replay_fails(
    database: Any, fresh_name: str, tmp_path: Path
) -> None:
    """The negative control: what the other test finds intact breaks when the ledger is ignored."""
    source, target = (database(name) for name in _PAIRS[0])
    path = tmp_path / "replay"
    path.write_bytes(pickle.dumps(_load(source, target, fresh_name)))
    for epoch in (1, 2):
        child = _child(target, epoch, path, "no")
        out, err = child.communicate(timeout=120)
        assert out.endswith("end\n") == (epoch == 1)
    assert TargetDuplicateKey.code in err or "goes back" in err


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_a_stale_owner_is_fenced(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    replay = _load(source, target, fresh_name)
    settings = settings_of(target)
    assert recovered(target, epoch=1) == {}
    old = MysqlDeliverer(settings, FEED, 1)
    old.begin()
    replay.send(old, upto=TS + 5)
    # The new owner waits for what is open, and then sees it.
    found: list[Any] = []
    taker = threading.Thread(target=lambda: found.append(recovered(target, epoch=2)))
    taker.start()
    time.sleep(0.5)
    assert not found
    old.commit({(TARGET, 0): Position(TS + 5)})
    taker.join(30)
    assert found == [{0: Position(TS + 5)}]
    with pytest.raises(FencedEpoch) as e:
        old.begin()
    assert e.value.kind is ErrorKind.FENCED
    assert old.state is DeliverState.BROKEN
    with pytest.raises(FencedEpoch):
        MysqlDriver(settings).recover(FEED, 1, 1, (), START)
    # One that died with its transaction open leaves nothing.
    second = MysqlDeliverer(settings, FEED, 2)
    second.begin()
    assert second.position == Position(TS + 5)
    replay.send(second, after=TS + 5)
    second.close()
    assert recovered(target, epoch=3) == {0: Position(TS + 5)}
    third = MysqlDeliverer(settings, FEED, 3)
    third.begin()
    replay.send(third, after=TS + 5)
    third.commit({(TARGET, 0): Position(replay.last)})
    MysqlDriver(settings).forget(FEED, 1)
    with pytest.raises(FencedEpoch):
        third.begin()
    assert content(target, fresh_name) == content(source, fresh_name)
    assert _ledger(target) == []


@pytest.mark.parametrize(("one", "other"), _PAIRS)
@pytest.mark.parametrize("forwarded", [True, False])
def test_connection_lost_in_commit(
    database: Any, fresh_name: str, one: str, other: str, forwarded: bool
) -> None:
    source, target = database(one), database(other)
    replay = _load(source, target, fresh_name)
    recovered(target)
    with Proxy(target.port) as proxy:
        deliverer = MysqlDeliverer(
            MysqlSettings.parse(f"mysql://root@127.0.0.1:{proxy.port}/"), FEED, 1
        )
        proxy.cut_at_commit(forward=forwarded)
        deliverer.begin()
        replay.send(deliverer)
        if forwarded:
            # The ledger says that it happened, so all is well, and the next window goes on.
            deliverer.commit({(TARGET, 0): Position(replay.last)})
            deliverer.begin()
            assert deliverer.position == Position(replay.last)
            deliverer.commit({})
            assert content(target, fresh_name) == content(source, fresh_name)
        else:
            with pytest.raises(MysqlCommitLost) as e:
                deliverer.commit({(TARGET, 0): Position(replay.last)})
            assert e.value.kind is ErrorKind.TRANSIENT
            assert deliverer.state is DeliverState.BROKEN
            assert recovered(target, epoch=2) == {}
            assert content(target, fresh_name) == {"a": [], "nokey": []}
        deliverer.close()
        assert proxy.cuts == 1


def test_target_gone_in_commit(database: Any, fresh_name: str) -> None:
    source, target = (database(name) for name in _PAIRS[0])
    replay = _load(source, target, fresh_name)
    recovered(target)
    with Proxy(target.port) as proxy:
        deliverer = MysqlDeliverer(
            MysqlSettings.parse(f"mysql://root@127.0.0.1:{proxy.port}/"), FEED, 1
        )
        proxy.cut_at_commit(forward=True, refuse_after=True)
        deliverer.begin()
        replay.send(deliverer)
        with pytest.raises(MysqlCommitUnknown) as e:
            deliverer.commit({(TARGET, 0): Position(replay.last)})
    assert e.value.kind is ErrorKind.TRANSIENT
    assert recovered(target, epoch=2) == {0: Position(replay.last)}
    assert content(target, fresh_name) == content(source, fresh_name)


def test_an_idle_connection_that_the_server_closed(database: Any, fresh_name: str) -> None:
    source, target = (database(name) for name in _PAIRS[0])
    replay = _load(source, target, fresh_name)
    recovered(target)
    deliverer = MysqlDeliverer(settings_of(target), FEED, 1)
    for after, upto in ((0, TS + 9), (TS + 9, replay.last)):
        deliverer.begin()
        replay.send(deliverer, after=after, upto=upto)
        deliverer.commit({(TARGET, 0): Position(upto)})
        target.kill_connections("command = 'Sleep'")
    deliverer.close()
    assert content(target, fresh_name) == content(source, fresh_name)
