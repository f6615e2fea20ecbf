"""``cdc cli upstream create``: TLS with client certificates, starts, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server_process import CdcServer
from tests.servers import tls
from tests.servers.database import Database, database
from tests.waiting import until


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database("mysql-8.0", tls=True) as server:
        server.execute(
            "CREATE USER x@'%' IDENTIFIED WITH caching_sha2_password BY 'pw-of-x' REQUIRE X509",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO x@'%'",
            "CREATE DATABASE c",
            "CREATE TABLE c.t (id INT PRIMARY KEY)",
        )
        yield server


def test_client_certificates(server: CdcServer, db: Database, tmp_path: Path) -> None:
    assert db.tls is not None
    uri = db.uri("x", "pw-of-x")
    words = ("upstream", "create", "-u", "tls", "--uri", uri)
    ca = ("--ca", str(db.tls.ca))
    pair = ("--cert", str(db.tls.cert), "--key", str(db.tls.key))
    strange = tls.make(tmp_path / "strange")
    for flags in (
        (),
        ca,
        ("--ca", str(strange.ca), *pair),
        (*ca, "--cert", str(strange.cert), "--key", str(strange.key)),
        (*ca, "--cert", str(db.tls.cert), "--key", str(strange.key)),
        (*ca, "--cert", str(tmp_path / "none.pem"), "--key", str(db.tls.key)),
    ):
        refused = server.cli(*words, *flags)
        assert refused.returncode == 1, flags
        assert refused.stderr.startswith("Error: [TG:ErrUpstreamNotReady]"), refused.stderr
        assert "pw-of-x" not in refused.stderr
        assert refused.stderr.count("\n") == 1
    # Paths are those of the caller, wherever the server works.
    here = [os.path.relpath(p) for p in (db.tls.ca, db.tls.cert, db.tls.key)]
    made = server.cli(*words, "--ca", here[0], "--cert", here[1], "--key", here[2])
    assert made.returncode == 0, made.stderr
    db.execute("INSERT INTO c.t VALUES (1)")
    executed = str(db.execute("SELECT @@global.gtid_executed")[0][0])
    until(
        lambda: server.api("GET", "/upstreams/tls").json()["position"].get("gtid") == executed,
        "it is pulled",
    )
    ciphers = db.execute(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'x'"
        " AND command LIKE 'Binlog%'"
    )
    assert ciphers[0][0] == 1
    assert server.cli("upstream", "remove", "-u", "tls").returncode == 0


def test_starts(server: CdcServer, db: Database) -> None:
    words = ("upstream", "create", "-u", "past", "--uri", db.uri(), "--start")
    for start, code in (
        ("bin.999999:4", "TG:ErrUpstreamStartInvalid"),
        ("next week", "TG:ErrUpstreamStartInvalid"),
        ("2001-01-01T00:00:00Z", "TG:ErrBinlogPurged"),
    ):
        refused = server.cli(*words, start)
        assert refused.returncode == 1
        assert f"[{code}]" in refused.stderr
    assert "past" not in [u["name"] for u in server.cli_json("upstream", "list")]
    start = str(db.execute("SELECT @@global.gtid_executed")[0][0])
    db.execute("INSERT INTO c.t VALUES (2)")
    assert server.cli(*words, start).returncode == 0
    executed = str(db.execute("SELECT @@global.gtid_executed")[0][0])
    until(
        lambda: server.api("GET", "/upstreams/past").json()["position"].get("gtid") == executed,
        "it is pulled",
    )
    # All of it, not what is committed from now on.
    made = server.cli(
        *("changefeed", "create", "-u", "past", "-c", "all", "--sink-uri", "blackhole://"),
        *("--start-ts", "earliest", "--no-confirm"),
    )
    assert made.returncode == 0, made.stderr
    first_ts = server.api("GET", "/upstreams/past").json()["first_ts"]
    found = server.api("GET", "/changefeeds/all").json()
    assert found["start_ts"] == first_ts < found["resolved_ts"]
    assert server.cli("changefeed", "remove", "-c", "all").returncode == 0
    assert server.cli("upstream", "remove", "-u", "past").returncode == 0


def test_advice_is_printed_and_kept(server: CdcServer, db: Database) -> None:
    db.execute("SET GLOBAL binlog_expire_logs_seconds = 600")
    try:
        made = server.cli("upstream", "create", "-u", "short", "--uri", db.uri())
    finally:
        db.execute("SET GLOBAL binlog_expire_logs_seconds = 2592000")
    assert made.returncode == 0, made.stderr
    advice = "binlogs are kept for 600 s only"
    assert f"Warning: {advice}; hint: SET GLOBAL binlog_expire_logs_seconds" in made.stderr
    assert advice in server.cli("upstream", "query", "-u", "short").stdout
    listed = server.cli("upstream", "list").stdout.splitlines()
    (line,) = [x for x in listed if x.startswith("short")]
    findings = server.api("GET", "/upstreams/short").json()["findings"]
    assert line.rstrip().endswith(str(len(findings)))
    assert server.cli("upstream", "remove", "-u", "short").returncode == 0
