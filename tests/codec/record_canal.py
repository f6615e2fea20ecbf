"""Records what Canal makes of ``debezium_script``: flat messages, as it sends them to Kafka.

``python -m tests.codec.record_canal`` writes ``canal_golden.json``: for each table its messages in
order, without what differs from run to run, and a message for each row, as ours are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.canal import program
from tests.codec import debezium_script as script
from tests.codec.record_debezium import prepare
from tests.servers import database
from tests.servers.database import Database

GOLDEN = Path(__file__).with_name("canal_golden.json")
# Of a run: when it was, and the number of a batch that Canal has read.
_VOLATILE = ("id", "es", "ts")


def _record(server: Database) -> list[Any]:
    prepare(server)
    program.grant(server)
    file, at = server.execute("SHOW MASTER STATUS")[0][:2]
    server.execute(*script.SESSION, *script.CHANGES, script.STATEMENT, script.END)
    return program.messages(server, (file, at), rf"{script.SCHEMA}\..*", script.DONE)


def plain(message: Any) -> list[Any]:
    """Its rows as messages of one each, without what is of a run."""
    kept = {key: value for key, value in message.items() if key not in _VOLATILE}
    if not kept["data"]:
        return [kept]
    olds = [None] * len(kept["data"]) if kept["old"] is None else [[old] for old in kept["old"]]
    return [kept | {"data": [row], "old": old} for row, old in zip(kept["data"], olds, strict=True)]


def main() -> None:
    """Write the golden file."""
    with database(program.SERVER) as server:
        found = [one for message in _record(server) for one in plain(message)]
    tables = ",\n".join(
        f"{json.dumps(name)}: [\n"
        + ",\n".join(json.dumps(m, ensure_ascii=False) for m in found if m["table"] == name)
        + "\n]"
        for name in script.DATA_TABLES
    )
    GOLDEN.write_text(
        f'{{"made_by": "python -m tests.codec.record_canal, Canal {program.VERSION}",\n'
        f'"tables": {{\n{tables}\n}}}}\n'
    )
    print(len(found))


if __name__ == "__main__":
    main()
