"""Records what Maxwell makes of ``debezium_script``, with its defaults.

``python -m tests.codec.record_maxwell`` runs it beside a broker, has it copy a table (a
*bootstrap*), and writes ``maxwell_golden.json``: for each table keys and values in order, without
what differs from run to run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from bench.topic import End
from tests.codec import debezium_script as script
from tests.codec.record_debezium import prepare
from tests.e2e.topics import records
from tests.maxwell import program
from tests.servers import broker, database, process
from tests.servers.broker import Broker
from tests.servers.database import Database
from tests.waiting import until

GOLDEN = Path(__file__).with_name("maxwell_golden.json")
COPIED = "by_unique"
_TOPIC = "changes"


def _record(server: Database, target: Broker) -> dict[str, Any]:
    prepare(server)
    program.grant(server)
    End.create_topic(target, _TOPIC, 1)
    folder, _ = process.data_folder(None, "record")
    rules = f"exclude: *.*, include: {script.SCHEMA}.*"
    try:
        with program.running(server, folder, program.config(server, target, _TOPIC, rules)):
            server.execute(*script.SESSION, *script.CHANGES, script.END)
            until(lambda: script.DONE in {m["table"] for _, m in _read(target)}, "it has come")
            server.execute(
                "INSERT INTO maxwell.bootstrap (database_name, table_name)"
                f" VALUES ('{script.SCHEMA}', '{COPIED}')"
            )
            done = "bootstrap-complete"
            until(lambda: done in {m["type"] for _, m in _read(target)}, "it is copied")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = _read(target)
    return {
        table: [[plain(key), plain(value)] for key, value in found if value["table"] == table]
        for table in script.DATA_TABLES
    }


def _read(target: Broker) -> list[tuple[Any, Any]]:
    return [(loaded(k), loaded(v)) for *_, k, v in records(target.bootstrap, [_TOPIC])]


def loaded(text: bytes | None) -> Any:
    """JSON whose numbers with a point or exponent stay texts: no digit of them is lost."""
    return json.loads(text or b"null", parse_float=str)


def plain(value: Any) -> Any:
    """A key or value without what is of a run: times, transactions, random keys."""
    return {k: v for k, v in value.items() if k not in ("ts", "xid", "xoffset", "commit", "_uuid")}


def main() -> None:
    """Write the golden file."""
    with database(program.SERVER) as server, broker() as target:
        found = _record(server, target)
    tables = ",\n".join(
        f"{json.dumps(name)}: [\n"
        + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records_)
        + "\n]"
        for name, records_ in found.items()
    )
    GOLDEN.write_text(
        f'{{"made_by": "python -m tests.codec.record_maxwell, Maxwell {program.VERSION}",\n'
        f'"tables": {{\n{tables}\n}}}}\n'
    )
    print({table: len(records_) for table, records_ in found.items()})


if __name__ == "__main__":
    main()
