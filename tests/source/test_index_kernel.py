"""The walk over whole events: counts, and damaged events that must not crash it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cdc.base.errors import TidegateError
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.source.cold import ColdEvents
from cdc.source.position import UpstreamPosition
from cdc.source.walker import Walker
from tests.servers.database import Database
from tests.source.pulling import CLOCK, Pulled


def test_mutated_events_end_in_errors_of_ours(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS f", "CREATE DATABASE f")
    with Pulled(db, tmp_path / "log") as p:
        db.execute(
            "CREATE TABLE f.t (id INT PRIMARY KEY, a VARCHAR(20), b BLOB, n DECIMAL(9,2),"
            " c BIT(9))",
            "INSERT INTO f.t VALUES (1,'x','y',1.5,b'1'),(2,NULL,NULL,NULL,NULL)",
            "UPDATE f.t SET a = 'changed', b = NULL",
            "XA START 'q'",
            "XA END 'q'",
            "XA ROLLBACK 'q'",
            "XA START 'q'",
            "INSERT INTO f.t (id) VALUES (3)",
            "XA END 'q'",
            "XA PREPARE 'q'",
            "XA COMMIT 'q'",
            "DELETE FROM f.t",
        )
        p.caught_up()
    events = p.events()
    head = (tmp_path / "log" / "000001.binlog").read_bytes()[4:]
    head = head[: int.from_bytes(head[9:13], "little")]
    outcomes = set()
    for seed in range(150):
        rng = random.Random(seed)
        changed = [bytearray(e) for e in events]
        for _ in range(rng.randrange(1, 6)):
            event = rng.choice(changed)
            event[rng.randrange(19, len(event) - 4)] = rng.randrange(256)
            event[-4:] = zlib.crc32(event[:-4]).to_bytes(4, "little")
        data = np.frombuffer(b"".join(changed), np.uint8)
        with LogWriter.open(tmp_path / str(seed), ChangelogSettings(), CLOCK) as writer:
            position = UpstreamPosition("bin.000001", 4, "")
            writer.begin(1, position.to_dict())
            writer.set_format(head)
            walker = Walker(writer, "mysql", position, lambda: False)
            try:
                walker.walk(data, 0, data.size, ColdEvents(walker).handle)
                outcomes.add("")
            except TidegateError as error:
                outcomes.add(error.code)
    assert len(outcomes) > 2
