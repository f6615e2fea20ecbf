"""``snapshot_kafka``, ``snapshot_mysql``: rows that are in a table, until the last is readable."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
import tomllib
from itertools import chain
from typing import Any, Protocol

from bench import debezium, flink_cdc, load, ours
from bench.arena import arena, digest, marks, wait_marks
from bench.figures import Figure
from bench.gate import Gate
from bench.ground import Ground, ground
from bench.processes import cpu_by_kind, cpu_seconds
from bench.settings import Settings
from bench.topic import End
from tests.servers.database import Database

ROWS = 5_000_000
_MYSQL_ROWS = 1_000_000
_POLL_S = 0.05
# A server that is in use has what is read of it in memory; with the little that servers of tests
# get it would be its reading of pages that is measured, for all sides.
SERVER = ("--innodb-buffer-pool-size=2G",)
# What makes ours warm: Spark's workers have read chunks, and the broker has taken batches.
_WARM_ROWS = 200_000
COPY_ALL = '[filter]\nrules = ["bench.t"]\n[snapshot]\nmode = "initial"\n'


def kafka(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """The same table, copied anew by each side in each run."""
    rows = settings.rows or ROWS
    with ground(settings.server, SERVER) as place:
        mine = _ours(place, rows, settings)
        detail: dict[str, Any] = {"snapshot_kafka": {"ours": mine}}
        rate = statistics.median(r["rows_per_s"] for r in mine)
        if not settings.peers:
            return [Figure("snapshot_kafka", round(rate), "rows/s")], detail
        theirs = _debezium(place, rows, settings)
        detail["snapshot_kafka"]["debezium"] = theirs
        peer = statistics.median(r["rows_per_s"] for r in theirs)
        name = f"Debezium {debezium.VERSION} (lz4)"
        figures = [Figure.more("snapshot_kafka", rate, "rows/s", name, peer)]
        flinks = _flink(place, rows, settings)
        detail["snapshot_kafka"]["flink"] = flinks
        peer = statistics.median(r["rows_per_s"] for r in flinks)
        name = f"Flink CDC {flink_cdc.VERSION} (lz4)"
        return [*figures, Figure.more("snapshot_kafka_flink", rate, "rows/s", name, peer)], detail


def _ours(place: Ground, rows: int, settings: Settings) -> list[dict[str, Any]]:
    """The first changefeed, of a small table, is not counted."""
    gate = Gate(place.database, "ours_snapshot")
    gate.create()
    runs = []
    load.run(place.database, load.bulk(_WARM_ROWS))
    with ours.server() as server:
        ours.register(server, gate, "snapshot")
        for number in range(settings.runs + 1):
            count = _WARM_ROWS if number == 0 else rows
            if number == 1:
                load.empty(place.database)
                load.run(place.database, load.bulk(rows))
            name = f"snapshot-{number}"
            End.create_topic(place.broker, name, settings.partitions)
            sink = (
                f"kafka://{place.broker.bootstrap}/{name}?protocol=canal-json"
                f"&compression={settings.codec}&partition-num={settings.partitions}"
            )
            end = End(place.broker, name)
            assert server.process is not None
            asked = {
                "changefeed_id": name,
                "upstream": "snapshot",
                "sink_uri": sink,
                "replica_config": tomllib.loads(COPY_ALL),
            }
            before = _spent(place, server.process.pid)
            began = time.monotonic()
            server.api("POST", "/changefeeds", asked).raise_for_status()
            finished, found = end.wait([0] * settings.partitions, count, lambda: None)
            after = _spent(place, server.process.pid)
            end.close()
            shown = server.cli_json("changefeed", "query", "-c", name)
            server.cli_json("changefeed", "remove", "-c", name)
            if found != count:
                raise RuntimeError(f"{found} messages for {count} rows")
            if number:
                seconds = finished - began
                spent = {kind: round(after[kind] - before[kind], 2) for kind in after}
                runs.append(
                    {
                        "rows_per_s": rows / seconds,
                        "seconds": seconds,
                        "cpu_s": spent,
                        "snapshot": shown["snapshot"],
                    }
                )
                print(f"snapshot_kafka ours: {rows / seconds:,.0f} rows/s {json.dumps(runs[-1])}")
    return runs


def _spent(place: Ground, capture: int) -> dict[str, float]:
    """Processor seconds by kind of process."""
    servers = {"broker": place.broker.pid, "database": place.database.pid}
    return cpu_by_kind(capture) | {kind: cpu_seconds(pid) for kind, pid in servers.items()}


def mysql(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """The same table into a server that has it not, in turn by each side; the first is warming."""
    rows = settings.rows or _MYSQL_ROWS
    runs: dict[str, list[dict[str, Any]]] = {"ours": []}
    if settings.peers:
        runs["dump"] = []
    with arena(settings.server, peers=False) as place, ours.server() as server:
        gate = Gate(place.upstream, "ours_copy")
        gate.create()
        load.run(place.upstream, chain(load.bulk(rows), marks()))
        wanted = digest(place.upstream)
        ours.register(server, gate, "copy")
        file = server.data_dir.parent / "copy.toml"
        file.write_text(f"{COPY_ALL}create-tables = true\n")
        for number in range(settings.runs + 1):
            for side in runs if number % 2 else reversed(runs):
                place.target.execute(f"DROP DATABASE IF EXISTS {load.SCHEMA}")
                began = time.monotonic()
                if side == "dump":
                    _dump(place.upstream, place.target)
                else:
                    name = f"copy-{number}"
                    words = ["changefeed", "create", "-c", name, "--upstream", "copy"]
                    sink = f"{place.target.uri()}/"
                    server.cli_json(*words, "--sink-uri", sink, "--config", str(file))
                    _wait_rows(place.target, wanted[0])
                seconds = time.monotonic() - began
                if (found := digest(place.target)) != wanted:
                    raise RuntimeError(f"{side}: {found} instead of {wanted} (rows, checksum)")
                if side == "ours":
                    server.cli_json("changefeed", "remove", "-c", name)
                if number:
                    runs[side].append({"rows_per_s": wanted[0] / seconds, "seconds": seconds})
                    print(f"snapshot_mysql {side}: {wanted[0] / seconds:,.0f} rows/s")
    rate, *peer = (statistics.median(r["rows_per_s"] for r in one) for one in runs.values())
    if not peer:
        return [Figure("snapshot_mysql", round(rate), "rows/s")], {"snapshot_mysql": runs}
    client = "mariadb-dump | mariadb" if place.target.kind == "mariadb" else "mysqldump | mysql"
    figure = Figure.more("snapshot_mysql", rate, "rows/s", client, peer[0])
    return [figure], {"snapshot_mysql": runs}


def _dump(upstream: Database, target: Database) -> None:
    """What an operator would do: one session reads, one writes."""
    into = ["--host=127.0.0.1", "--user=root"]
    read = [*upstream.tool("mariadb-dump"), *into, f"--port={upstream.port}"]
    read += ["--single-transaction", "--quick", "--databases", load.SCHEMA]
    with subprocess.Popen(read, stdout=subprocess.PIPE) as reader:
        write = [*target.tool("mariadb"), *into, f"--port={target.port}"]
        subprocess.run(write, stdin=reader.stdout, check=True)
    if reader.returncode:
        raise RuntimeError(f"the dump ended with {reader.returncode}")


def _wait_rows(target: Database, rows: int, timeout_s: float = 600.0) -> None:
    """Wait until all rows are there; the marks come with the last of them, and are soon counted."""
    wait_marks(target, lambda: None, timeout_s)
    deadline = time.monotonic() + timeout_s
    while target.execute(f"SELECT COUNT(*) FROM {load.SCHEMA}.{load.TABLE}")[0][0] < rows:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all rows came in {timeout_s:.0f} s")
        time.sleep(_POLL_S)


class Copier(Protocol):
    """A peer that copies ``bench.t`` as often as it is told to."""

    def copy(self, name: str) -> float:
        """Begin another copy; ``time.monotonic()`` before."""

    def check(self) -> None:
        """Raise if it has failed."""


def _debezium(place: Ground, rows: int, settings: Settings) -> list[dict[str, Any]]:
    """Runs of one worker, each with a new connector."""
    user = Gate(place.database, "debezium_snapshot")
    user.create()
    with debezium.connect(
        place.broker, user, "ds", codec="lz4", partitions=settings.partitions
    ) as worker:
        return _copies("debezium", worker, ".bench.t", place, rows, settings)


def _flink(place: Ground, rows: int, settings: Settings) -> list[dict[str, Any]]:
    """Jobs of one JVM."""
    user = Gate(place.database, "flink_snapshot")
    user.create()
    with flink_cdc.flink(place.broker, user) as worker:
        return _copies("flink", worker, "", place, rows, settings)


def _copies(
    peer: str, copier: Copier, suffix: str, place: Ground, rows: int, settings: Settings
) -> list[dict[str, Any]]:
    """Copies into topics that are called as they are, and ``suffix``; the first is not counted."""
    runs = []
    for number in range(settings.runs + 1):
        name = f"{peer}-{number}"
        topic = name + suffix
        End.create_topic(place.broker, topic, settings.partitions)
        end = End(place.broker, topic)
        began = copier.copy(name)
        finished, found = end.wait([0] * settings.partitions, rows, copier.check)
        end.close()
        if number:
            seconds = finished - began
            runs.append({"rows_per_s": rows / seconds, "messages": found})
            print(f"snapshot_kafka {peer}: {rows / seconds:,.0f} rows/s ({found} messages)")
    return runs
