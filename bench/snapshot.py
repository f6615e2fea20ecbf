"""``snapshot_kafka``: rows that are in a table already, until the last of them is readable."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from bench import debezium, load, ours
from bench.figures import Figure
from bench.gate import Gate
from bench.ground import Ground, ground
from bench.settings import Settings
from bench.topic import End

ROWS = 2_000_000
_WARM_ROWS = 200_000
# What makes ours warm: Spark's workers have read chunks, and the broker has taken batches.
_CONFIG = '[filter]\nrules = ["bench.t"]\n[snapshot]\nmode = "initial"\n'


def kafka(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """The same table, copied anew by each side in each run."""
    rows = settings.rows or ROWS
    with ground(settings.server) as place:
        mine = _ours(place, rows, settings)
        detail: dict[str, Any] = {"snapshot_kafka": {"ours": mine}}
        rate = statistics.median(r["rows_per_s"] for r in mine)
        if not settings.peers:
            return [Figure("snapshot_kafka", round(rate), "rows/s")], detail
        theirs = _debezium(place, rows, settings)
        detail["snapshot_kafka"]["debezium"] = theirs
        peer = statistics.median(r["rows_per_s"] for r in theirs)
        name = f"Debezium {debezium.VERSION} (lz4)"
        return [Figure.more("snapshot_kafka", rate, "rows/s", name, peer)], detail


def _ours(place: Ground, rows: int, settings: Settings) -> list[dict[str, Any]]:
    """The first changefeed, of a small table, is not counted."""
    gate = Gate(place.database, "ours_snapshot")
    gate.create()
    runs = []
    load.run(place.database, load.bulk(_WARM_ROWS))
    with ours.server() as server:
        uri = f"mysql://{gate.user}:{gate.password}@127.0.0.1:{place.database.port}"
        server.cli_json("upstream", "create", "-u", "snapshot", "--uri", uri)
        file = server.data_dir.parent / "snapshot.toml"
        file.write_text(_CONFIG)
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
            began = time.monotonic()
            words = ["changefeed", "create", "-c", name, "--upstream", "snapshot"]
            server.cli_json(*words, "--sink-uri", sink, "--config", str(file))
            finished, found = end.wait([0] * settings.partitions, count, lambda: None)
            end.close()
            shown = server.cli_json("changefeed", "query", "-c", name)
            server.cli_json("changefeed", "remove", "-c", name)
            if found != count:
                raise RuntimeError(f"{found} messages for {count} rows")
            if number:
                seconds = finished - began
                runs.append({"rows_per_s": rows / seconds, "snapshot": shown["snapshot"]})
                print(f"snapshot_kafka ours: {rows / seconds:,.0f} rows/s {json.dumps(runs[-1])}")
    return runs


def _debezium(place: Ground, rows: int, settings: Settings) -> list[dict[str, Any]]:
    """Runs of one worker, each with a new connector; the first is not counted."""
    runs = []
    user = Gate(place.database, "debezium_snapshot")
    user.create()
    with debezium.connect(
        place.broker, user, "ds0", codec="lz4", partitions=settings.partitions
    ) as worker:
        for number in range(settings.runs + 1):
            topic = f"ds{number + 1}.bench.t"
            End.create_topic(place.broker, topic, settings.partitions)
            end = End(place.broker, topic)
            began = worker.copy(f"ds{number + 1}")
            finished, found = end.wait([0] * settings.partitions, rows, worker.check)
            end.close()
            if number:
                seconds = finished - began
                runs.append({"rows_per_s": rows / seconds, "messages": found})
                print(f"snapshot_kafka debezium: {rows / seconds:,.0f} rows/s ({found} messages)")
    return runs
