"""Records what Debezium's MySQL connector makes of ``debezium_script``, with its defaults.

``python -m tests.codec.record_debezium`` runs the connector in Kafka Connect (JSON converter with
schemas) beside a MySQL 8.0 and a broker, and writes ``debezium_golden.json``: for each table the
schemas of keys and values, and the payloads in order; without what differs from run to run.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from bench.debezium import VERSION, Connect
from bench.gate import Gate
from bench.topic import End
from tests.codec import debezium_script as script
from tests.e2e.topics import records
from tests.servers import broker, database, process
from tests.servers.broker import Broker
from tests.servers.database import Database

GOLDEN = Path(__file__).with_name("debezium_golden.json")
_PREFIX = "shop"
_PATIENCE_S = 180
# Of a run, or of the place where it was: not of the format.
_VOLATILE = ("ts_ms", "ts_us", "ts_ns")


class Recorded(Connect):
    """A worker whose connector has nothing but defaults beside what says where things are."""

    def _worker(self) -> dict[str, str]:
        return super()._worker() | {
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
        }

    def _connector(self) -> dict[str, str]:
        usual = super()._connector()
        kept = (
            "database.ssl.mode", "driver.allowPublicKeyRetrieval", "connector.class", "tasks.max",
            "database.hostname", "database.port", "database.user", "database.password",
            "database.server.id", "topic.prefix", "schema.history.internal",
            "schema.history.internal.file.filename", "snapshot.mode",
        )  # fmt: skip
        return {name: usual[name] for name in kept} | {"database.include.list": script.SCHEMA}


def prepare(server: Database) -> None:
    """Make the tables."""
    server.execute(
        f"DROP DATABASE IF EXISTS {script.SCHEMA}",
        f"CREATE DATABASE {script.SCHEMA} CHARACTER SET utf8mb4",
        *script.SESSION,
        *script.TABLES,
    )


def _record(server: Database, target: Broker) -> dict[str, Any]:
    prepare(server)
    gate = Gate(server, "recorder")
    gate.create()
    folder, _ = process.data_folder(None, "record")
    tables = (*script.DATA_TABLES, script.DONE)
    topics = [_PREFIX, *(f"{_PREFIX}.{script.SCHEMA}.{t}" for t in tables)]
    for topic in topics:
        End.create_topic(target, topic, 1)
    worker = Recorded(folder, target, gate, _PREFIX, "none")
    try:
        worker.start()
        server.execute(*script.SESSION, *script.CHANGES, script.STATEMENT, script.END)
        end = time.monotonic() + _PATIENCE_S
        while not records(target.bootstrap, topics[-1:]):
            worker.check()
            assert time.monotonic() < end, "the connector did not come to the end"
            time.sleep(1)
    finally:
        worker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    found = records(target.bootstrap, topics[:-1])
    return {
        "connector": f"Debezium MySQL {VERSION}, defaults, JsonConverter",
        "tables": {
            table: _table([(k, v) for t, _, _, k, v in found if t == topic])
            for table, topic in zip(script.DATA_TABLES, topics[1:], strict=False)
        },
        "statement": [
            [_loaded(key), _loaded(value)]
            for topic, _, _, key, value in found
            if topic == _PREFIX and script.STATEMENT.encode() in (value or b"")
        ],
    }


def _table(found: list[tuple[bytes | None, bytes | None]]) -> dict[str, Any]:
    keys = [_loaded(k) for k, _ in found]
    values = [_loaded(v) for _, v in found]
    (key_schema,) = {json.dumps(k and k["schema"]) for k in keys}
    (value_schema,) = {json.dumps(v["schema"]) for v in values if v}
    return {
        "key_schema": json.loads(key_schema),
        "value_schema": json.loads(value_schema),
        "records": [
            [k and k["payload"], v and v["payload"]] for k, v in zip(keys, values, strict=True)
        ],
    }


def _loaded(text: bytes | None) -> Any:
    if text is None:
        return None
    found = json.loads(text)
    payload = found["payload"] if isinstance(found, dict) and "payload" in found else None
    for place in (payload, payload.get("source") if isinstance(payload, dict) else None):
        for name in _VOLATILE if isinstance(place, dict) else ():
            place.pop(name, None)  # type: ignore[union-attr]
    if isinstance(payload, dict) and isinstance(payload.get("source"), dict):
        source = payload["source"]
        payload["source"] = {k: source[k] for k in ("connector", "name", "db", "table", "snapshot")}
    return found


def _lines(found: dict[str, Any]) -> str:
    """JSON with a line for each record and schema, so that a difference is read easily."""

    def flat(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    tables = ",\n".join(
        f"{flat(name)}: {{\n"
        f'"key_schema": {flat(table["key_schema"])},\n'
        f'"value_schema": {flat(table["value_schema"])},\n'
        '"records": [\n' + ",\n".join(map(flat, table["records"])) + "\n]}"
        for name, table in found["tables"].items()
    )
    return (
        f'{{"connector": {flat(found["connector"])},\n'
        '"made_by": "python -m tests.codec.record_debezium",\n'
        f'"tables": {{\n{tables}}},\n"statement": {flat(found["statement"])}}}'
    )


def main() -> None:
    """Write the golden file."""
    with database("mysql-8.0", gtid=True) as server, broker() as target:
        found = _record(server, target)
    GOLDEN.write_text(_lines(found) + "\n")
    print({table: len(t["records"]) for table, t in found["tables"].items()})


if __name__ == "__main__":
    main()
