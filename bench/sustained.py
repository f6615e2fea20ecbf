"""``sustained``: ten minutes at full rate, with the broker's and our log on a disk.

The bursts of ``kafka_bulk`` end before anything is written back, collected or retired. Here the
server makes its rows by itself, so that writing them takes little of what both share: transactions
that insert 2,000 rows out of a table, and delete those of a hundred transactions before. Binlogs,
our log and the topic are kept for a short while only, as none of them may fill the disk.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

from bench import load, ours
from bench.figures import Figure
from bench.ground import ground
from bench.ours import Ours
from bench.settings import Settings
from bench.topic import End

_ROWS = 2000
_KEPT = 100
_FIRST = 1_000_000_000
_LOOK_S = 1.0
_WINDOW_S = 10
_PURGE_EVERY = 500
_CATCH_UP_S = 300.0
_SETTINGS = "[changelog]\nkeep-s = 60\n"
_BROKER = {
    "log.segment.bytes": str(256 << 20),
    "log.retention.bytes": str(2 << 30),
    "log.retention.check.interval.ms": "5000",
}


def sustained(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Rows a second over the whole time, and over its slowest ten seconds."""
    seconds = settings.seconds or 600.0
    with ground(settings.server, memory=False, broker_options=_BROKER) as place:
        _seed(place.database)
        with ours.streaming(
            place.database, place.broker, "ours", codec=settings.codec, settings=_SETTINGS
        ) as feed:
            found = _run(feed, End(place.broker, "ours"), place.database.socket, seconds)
    print(f"sustained: {found['rows_per_s']:,.0f} rows/s for {found['seconds']:.0f} s")
    figures = [
        Figure("sustained", round(found["rows_per_s"]), "rows/s"),
        Figure("sustained_slowest", round(found["slowest_rows_per_s"]), "rows/s"),
        Figure("sustained_behind", round(found["most_behind"]), "rows"),
    ]
    return figures, {"sustained": found}


def _seed(database: Any) -> None:
    rows = ",".join(load.row(i) for i in range(_ROWS))
    database.execute(
        "SET sql_log_bin = 0",
        f"CREATE TABLE {load.SCHEMA}.seed LIKE {load.SCHEMA}.{load.TABLE}",
        load.INSERT.replace(" t ", " seed ") + rows,
        database=load.SCHEMA,
    )


def _run(feed: Ours, end: End, socket: Any, seconds: float) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe(False)
    written = context.Value("q", 0, lock=False)
    place = {"unix_socket": str(socket), "user": "root"}
    writer = context.Process(target=_write, args=(place, seconds, written, its), daemon=True)
    start = sum(end.offsets())
    began = time.monotonic()
    writer.start()
    looks: list[tuple[float, int, int]] = []
    while not mine.poll(_LOOK_S):
        # Commit markers have offsets too: one for each of our transactions, some in a million.
        looks.append((time.monotonic() - began, sum(end.offsets()) - start, written.value))
        feed.check()
        if looks[-1][0] > seconds + 60:
            raise TimeoutError("the load does not end")
    rows = int(mine.recv())
    _await_all(feed)
    took = time.monotonic() - began
    writer.join()
    end.close()
    return {
        "rows": rows,
        "seconds": took,
        "rows_per_s": rows / took,
        "slowest_rows_per_s": _slowest(looks),
        "most_behind": max((w - delivered for _, delivered, w in looks), default=0),
        "by_second": [delivered for _, delivered, _ in looks],
    }


def _slowest(looks: list[tuple[float, int, int]]) -> float:
    """Rows a second of the slowest window, but for the first one, in which writing began."""
    step = round(_WINDOW_S / _LOOK_S)
    ends = looks[step::step]
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(ends)]
    return min(rates, default=statistics.fmean(x[1] / x[0] for x in looks[-1:]))


def _await_all(feed: Ours) -> None:
    """Wait until the changefeed has delivered all that is committed now."""
    now = feed.server.cli_json("tso", "query")["tso"]
    path = f"/changefeeds/{feed.topic}/status"
    deadline = time.monotonic() + _CATCH_UP_S
    while feed.server.api("GET", path).json()["checkpoint_ts"] < now:
        feed.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not delivered within {_CATCH_UP_S:.0f} s after the load")
        time.sleep(0.1)


def _write(place: dict[str, str], seconds: float, written: Any, result: Connection) -> None:
    """Insert and delete for so long, one transaction after the other; a process of its own."""
    import pymysql

    number = 0
    with pymysql.connect(**place, database=load.SCHEMA, autocommit=True) as connection:  # type: ignore[arg-type]
        cursor = connection.cursor()
        cursor.execute(
            "SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM"
            " information_schema.columns WHERE table_schema = %s AND table_name = %s",
            (load.SCHEMA, load.TABLE),
        )
        names = cursor.fetchone()[0].split(",")
        chosen = ",".join(("id + %s", *names[1:]))
        insert = f"INSERT INTO {load.TABLE} SELECT {chosen} FROM seed"
        delete = f"DELETE FROM {load.TABLE} WHERE id >= %s AND id < %s"
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            at = _FIRST + number * _ROWS
            cursor.execute(insert, (at,))
            written.value += _ROWS
            if number >= _KEPT:
                old = at - _KEPT * _ROWS
                written.value += cursor.execute(delete, (old, old + _ROWS))
            number += 1
            if number % _PURGE_EVERY == 0:
                # Files that a dump thread still reads are left by the server.
                cursor.execute("PURGE BINARY LOGS BEFORE NOW() - INTERVAL 60 SECOND")
        result.send(written.value)
