"""A changefeed into nothing reads and encodes all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.base.errors import InvalidError
from cdc.changelog.reader import ChangeLog
from sink.open import open_sink
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Database
from tests.source.pulling import Pulled


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("blackhole://?protocol=xml", "TG:ErrSinkUnknownProtocol"),
        ("blackhole://?debezium-disable-schema=true", "TG:ErrSinkOptionNotSupported"),
        ("blackhole://?compression=lz4", "TG:ErrSinkUnknownOption"),
    ],
)
def test_what_is_refused(uri: str, code: str) -> None:
    with pytest.raises(InvalidError) as raised:
        open_sink(uri, {})
    assert raised.value.code == code


@pytest.mark.real
@pytest.mark.parametrize("protocol", ["canal-json", "debezium"])
def test_all_rows_are_encoded(
    mariadb: Database, tmp_path: Path, schema_name: str, protocol: str
) -> None:
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    with Pulled(mariadb, tmp_path / "log") as pulled:
        for name in ("a", "b"):
            mariadb.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {name} SELECT seq, 0 FROM seq_1_to_500",
                f"UPDATE {name} SET v = 1 WHERE id <= 100",
                f"DELETE FROM {name} WHERE id <= 10",
                database=schema_name,
            )
        pulled.caught_up()
    log = ChangeLog.open(tmp_path / "log")
    start_ts = log.state.first_ts
    log.close()
    config = {"filter": {"rules": [f"{schema_name}.*"]}}
    running = Running(
        tmp_path / "log", f"blackhole://?protocol={protocol}", config, InProcessJobs(),
        start_ts=start_ts,
    )  # fmt: skip
    try:
        report = running.done()
    finally:
        running.stop()
    assert report.rows == 2 * (500 + 100 + 10)
    assert report.bytes > 100 * report.rows
