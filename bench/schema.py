"""``schema_tables``: reading every table of a snapshot of 100,000, none like another.

A snapshot is opened at once and a table read when it is asked for; a changefeed over all of them
asks for all. Each has ten columns and three keys, in the words of MariaDB's SHOW CREATE TABLE, and
names of its own, so that no table is known from another. The limits are the design's: 60 s and
2 GB, the process and what it began with included.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from bench.figures import Figure
from bench.processes import figures_of, most_bytes
from bench.settings import Settings

_TABLES = 100_000
_LIMIT_S, _LIMIT_BYTES = 60.0, 2e9
_TEXT = """CREATE TABLE `t{i}` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `user_id{i}` int(11) NOT NULL DEFAULT 0,
  `name` varchar(64) NOT NULL DEFAULT '',
  `state` enum('new','paid','sent') DEFAULT 'new',
  `price` decimal(12,2) DEFAULT NULL,
  `created_at` timestamp NOT NULL DEFAULT current_timestamp(),
  `updated_at` datetime DEFAULT NULL ON UPDATE current_timestamp(),
  `note` text DEFAULT NULL COMMENT 'free {i}',
  `flags` tinyint(4) DEFAULT 0,
  `doc` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`doc`)),
  PRIMARY KEY (`id`),
  UNIQUE KEY `u` (`user_id{i}`,`name`),
  KEY `k` (`created_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci"""


def table_text(i: int) -> str:
    """SHOW CREATE TABLE of the table number ``i``, like no other."""
    return _TEXT.replace("{i}", str(i))


def tables(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Seconds of processor time, and the most memory, in a process of its own."""
    count = settings.rows or _TABLES
    found = []
    for _ in range(settings.runs):
        found.append(figures_of("bench.schema", count))
        print(
            f"schema_tables ours: {found[-1]['seconds']:.1f} s, {found[-1]['bytes'] / 1e9:.2f} GB"
        )
    seconds = statistics.median(f["seconds"] for f in found)
    most = statistics.median(f["bytes"] for f in found)
    share = count / _TABLES
    figures = [
        Figure.less("schema_tables", seconds, "s", "target", _LIMIT_S * share),
        Figure.less("schema_tables_memory", most / 1e9, "GB", "target", _LIMIT_BYTES / 1e9),
    ]
    return figures, {"schema_tables": {"tables": count, "runs": found}}


def _read(count: int) -> dict[str, float]:
    import time

    from cdc.base.collector import collection_paused
    from cdc.schema.snapshot import catalog

    snapshot = {
        "ts": 1,
        "server": {"kind": "mariadb", "version": "11.4.2"},
        "databases": {"d": {}},
        "tables": {f"d.t{i}": table_text(i) for i in range(count)},
    }
    began = time.process_time()
    made = catalog(snapshot)
    with collection_paused():
        columns = sum(len(table.columns) for key in made if (table := made.table(*key)))
    seconds = time.process_time() - began
    assert columns == 10 * count
    return {"seconds": seconds, "bytes": most_bytes()}


if __name__ == "__main__":
    print(json.dumps(_read(int(sys.argv[1]))))
