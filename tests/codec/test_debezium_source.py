"""``source`` says where the upstream has a row, as the server itself shows it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cdc.changelog.index import Runs
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.transactions import RunTransactions
from cdc.source.position import file_number
from sink.codec.contract import Framing
from sink.codec.debezium.codec import DebeziumCodec
from sink.codec.debezium.plan import NO_TABLES
from sink.codec.debezium.settings import DebeziumSettings
from tests.codec.binlog_rows import BUILD_MS, TS, runs_of, table_of
from tests.codec.shown_events import ShownEvent, shown_events
from tests.servers import Database

_ROWS = 40


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_gtid_file_pos_and_row_are_those_of_the_server(
    database: Any, fresh_name: str, name: str
) -> None:
    server = database(name, gtid=True)
    sources, file, shown = _sources(server, fresh_name)
    assert {s["file"] for s in sources} == {file}
    # Rows of one event stand together, and count from 0; a changed key is a DELETE and a create.
    places = dict.fromkeys((f"{s['db']}.{s['table']}", *_place(s), s["row"]) for s in sources)
    assert len(sources) == len(places) + 2
    counts: dict[ShownEvent, int] = {}
    for *event, row in places:
        assert row == counts.setdefault(ShownEvent(*event), 0)
        counts[ShownEvent(*event)] += 1
    assert list(counts) == shown
    assert max(counts.values()) > 1
    assert len({event.gtid for event in shown}) == 4, "one for each transaction"
    assert len(shown) > 6, "a statement of many rows has several events"


def test_of_rows_that_were_left_out_the_others_keep_their_places(
    database: Any, fresh_name: str
) -> None:
    server = database("mysql-8.0", gtid=True)
    _, rows, codec, plan = _rows(server, fresh_name)
    whole = _encoded(rows, codec, plan)
    kept = np.arange(len(rows.refs)) % 3 == 1
    some = _encoded(rows.only(kept), codec, plan)
    assert some == [s for s, keep in zip(whole, kept, strict=True) if keep]


def test_rows_without_a_transaction_have_no_place(database: Any, fresh_name: str) -> None:
    server = database("mysql-8.0", gtid=True)
    _, rows, codec, plan = _rows(server, fresh_name)
    rows.transactions = None
    told = {(s["gtid"], s["file"], s["pos"], s["server_id"]) for s in _encoded(rows, codec, plan)}
    assert told == {(None, "", 0, 0)}


@pytest.mark.parametrize(("number", "name"), [(7, "bin.000007"), (1_234_567, "bin.1234567")])
def test_the_number_of_a_file_has_six_digits_or_more(
    database: Any, fresh_name: str, number: int, name: str
) -> None:
    server = database("mysql-8.0", gtid=True)
    _, rows, codec, plan = _rows(server, fresh_name)
    assert rows.transactions is not None
    rows.transactions.runs.upstream_file[:] = number
    assert {s["file"] for s in _encoded(rows, codec, plan)} == {name}


def _place(source: dict[str, Any]) -> tuple[int, int, str | None]:
    return source["pos"], source["server_id"], source["gtid"]


def _sources(server: Database, schema: str) -> tuple[list[Any], str, list[ShownEvent]]:
    file, rows, codec, plan = _rows(server, schema)
    shown = [e for e in shown_events(server, file) if e.table.startswith(f"{schema}.")]
    return _encoded(rows, codec, plan), file, shown


def _rows(server: Database, schema: str) -> tuple[str, RowBatch, DebeziumCodec, Any]:
    """Rows of four transactions of two tables; each of the first's keys changes, too."""
    server.execute(
        f"CREATE DATABASE {schema}",
        f"CREATE TABLE {schema}.a (id INT PRIMARY KEY, v VARCHAR(2000))",
        f"CREATE TABLE {schema}.b (id INT, v INT)",
        "FLUSH BINARY LOGS",
    )
    many = ", ".join(f"({i}, REPEAT('x', 1000))" for i in range(_ROWS))
    server.execute(
        f"INSERT INTO {schema}.a VALUES {many}",
        "BEGIN",
        f"INSERT INTO {schema}.b VALUES (1, 1), (2, NULL), (3, 3)",
        f"UPDATE {schema}.a SET v = id WHERE id < 5",
        f"UPDATE {schema}.b SET v = 7 WHERE id > 1",
        "COMMIT",
        f"UPDATE {schema}.a SET id = id + 100 WHERE id IN (7, 8)",
        f"DELETE FROM {schema}.a WHERE id < 20",
    )
    path = server.binlogs()[-1]
    data = path.read_bytes()
    tables = {f"{schema}.{t}": table_of(server, schema, t) for t in "ab"}
    matrix, entries = runs_of(data, tables)
    codec, plan = DebeziumCodec(DebeziumSettings(name="shop", debezium_disable_schema=True)), None
    for entry in entries:
        plan = codec.plan([entry], plan or NO_TABLES)
    assert plan is not None
    runs = np.array(_merged(matrix), np.int64)
    # As the puller would: a ts for each transaction, by the server's own word.
    shown = {e.pos: e.gtid for e in shown_events(server, path.name)}
    gtids = [str(shown[int(at)]) for at in runs[:, L.RUN_OFFSET]]
    order = {gtid: n for n, gtid in enumerate(dict.fromkeys(gtids))}
    mark = ":" if server.kind == "mysql" else "-"
    (source,) = {gtid.rpartition(mark)[0] for gtid in gtids}
    runs[:, L.RUN_TS] = [TS + order[gtid] for gtid in gtids]
    named = Runs.build(
        len(runs),
        commit_ts=runs[:, L.RUN_TS],
        gtid_source=0,
        gtid_seq=[int(gtid.rpartition(mark)[2]) for gtid in gtids],
        upstream_file=file_number(path.name),
        upstream_pos=runs[:, L.RUN_OFFSET],
    )
    transactions = RunTransactions(named, {0: source}, binlog=path.name.rpartition(".")[0])
    rows = RowBatch(
        np.frombuffer(data, np.uint8), runs, 10_000, plan.plans, path.name, transactions
    )
    return path.name, rows, codec, plan


def _merged(runs: list[list[int]]) -> list[list[int]]:
    """Events of one statement as one run, as the index has them."""
    found = [runs[0]]
    for run in runs[1:]:
        last = found[-1]
        behind = last[L.RUN_OFFSET] + last[L.RUN_LENGTH]
        if run[L.RUN_OFFSET] == behind and run[L.RUN_PLAN] == last[L.RUN_PLAN]:
            last[L.RUN_LENGTH] += run[L.RUN_LENGTH]
        else:
            found.append(run)
    return found


def _encoded(rows: RowBatch, codec: DebeziumCodec, plan: Any) -> list[Any]:
    order = np.arange(len(rows.refs))
    found = codec.encode(rows, plan, order, BUILD_MS, framing=Framing.LINES)
    lines = b"".join(bytes(batch.data) for batch in found).splitlines()
    return [json.loads(line)["source"] for line in lines]
