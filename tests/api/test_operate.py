"""A changefeed's life through the command line, with a real upstream and a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdc.base.ids import FeedId
from sink.open import open_sink
from tests import servers
from tests.api.server_process import CdcServer
from tests.waiting import until

SECRET = "s3cr3t-of-the-test"


@pytest.fixture(scope="module")
def operated(
    server: CdcServer, mariadb: servers.Database, broker: servers.Broker
) -> tuple[CdcServer, str]:
    """A server with the upstream ``main``, whose schema ``op`` has three tables."""
    mariadb.execute("CREATE DATABASE op")
    mariadb.execute("CREATE TABLE op.a (id INT PRIMARY KEY, v VARCHAR(20))")
    mariadb.execute("CREATE TABLE op.b (id INT PRIMARY KEY, v VARCHAR(20))")
    mariadb.execute("CREATE TABLE op.nokey (id INT)")
    mariadb.execute(
        f"CREATE USER puller IDENTIFIED BY '{SECRET}'",
    )
    mariadb.execute("GRANT ALL ON *.* TO puller")
    uri = f"mysql://puller:{SECRET}@127.0.0.1:{mariadb.port}"
    info = server.cli_json("upstream", "create", "-u", "main", "--uri", uri)
    assert info["server_kind"] == "mariadb"
    return server, f"kafka://{broker.bootstrap}/op?protocol=canal-json"


def _create(server: CdcServer, feed: str, sink: str, *more: str) -> Any:
    words = ("changefeed", "create", "-c", feed, "-u", "main", "--sink-uri", sink, *more)
    return server.cli_json(*words)


def _state(server: CdcServer, feed: str) -> str:
    return str(server.cli_json("changefeed", "query", "-c", feed)["state"])


def _ahead(sink: str, feed: str, ts: int) -> bool:
    """Whether the ledger has a position above ``ts``."""
    driver = open_sink(sink, {}).driver()
    known = driver.admit(FeedId("", feed, 0))
    return any(p.ts > ts for each in known for p in driver.delivered(each).values())


def _config(tmp_path: Path, text: str) -> str:
    file = tmp_path / "changefeed.toml"
    file.write_text(text)
    return str(file)


def test_the_life_of_a_changefeed(operated: tuple[CdcServer, str], tmp_path: Path) -> None:
    server, sink = operated
    config = _config(tmp_path, "[filter]\nrules = ['op.a', 'op.b']\n")
    info = _create(server, "life", sink, "--config", config)
    assert info["state"] == "normal"
    assert info["config"]["filter"]["rules"] == ["op.a", "op.b"]
    start = info["checkpoint_ts"]
    until(
        lambda: server.cli_json("changefeed", "query", "-c", "life")["checkpoint_ts"] > start,
        "the checkpoint moves",
    )
    listed = server.cli_json("changefeed", "list")
    assert [i["id"] for i in listed if i["id"] == "life"] == ["life"]
    (line,) = (x for x in server.cli("changefeed", "list").stdout.splitlines() if "life" in x)
    assert re.search(r" normal +\d{18} +\S+ \S+ +\d+(\.\d)?s *$", line)
    told = server.cli("changefeed", "statistics", "-c", "life", "-I", "0.1", "-n", "2")
    first, second = (json.loads(line) for line in told.stdout.splitlines())
    assert first.keys() == second.keys() == {"state", "sink_gap", "replication_gap", "catch_up"}
    assert 0 <= second["sink_gap"] <= second["replication_gap"] < 60_000
    (runs,) = [i for i in server.cli_json("processor", "list") if i["changefeed_id"] == "life"]
    words = ("processor", "query", "-c", "life")
    tables = server.cli_json(*words)
    assert tables == server.cli_json(*words, "-p", runs["capture_id"])
    assert server.cli_json(*words, "-p", "another") == {"table_ids": [], "tables": []}

    again = server.cli("changefeed", "create", "-c", "life", "-u", "main", "--sink-uri", sink)
    assert again.returncode == 1
    assert "[TG:ErrChangeFeedAlreadyExists]" in again.stderr
    refused = server.cli("changefeed", "update", "-c", "life", "--target-ts", "5", "--no-confirm")
    assert "[TG:ErrChangefeedUpdateRefused]" in refused.stderr
    in_use = server.cli("upstream", "remove", "-u", "main")
    assert "[TG:ErrUpstreamInUse]" in in_use.stderr

    assert server.cli("changefeed", "pause", "-c", "life").returncode == 0
    assert _state(server, "life") == "stopped"
    assert (
        "[TG:ErrChangefeedUpdateRefused]" in server.cli("changefeed", "pause", "-c", "life").stderr
    )
    target = server.cli_json("tso", "query")["tso"] + (1500 << 18)
    words = ("changefeed", "update", "-c", "life", "--target-ts", str(target))
    assert server.cli(*words, stdin="n\n").returncode == 1
    assert server.cli(*words, stdin="y\n").returncode == 0
    epoch = server.cli_json("changefeed", "query", "-c", "life")["epoch"]
    assert server.cli("changefeed", "resume", "-c", "life").returncode == 0
    until(lambda: _state(server, "life") == "finished", "it reaches its target")
    done = server.cli_json("changefeed", "query", "-c", "life")
    assert done["checkpoint_ts"] == target
    assert done["epoch"] > epoch
    assert "life" not in [i["id"] for i in server.cli_json("changefeed", "list")]
    assert "life" in [i["id"] for i in server.cli_json("changefeed", "list", "--all")]

    for said in ("removed", "is not there, so nothing is removed"):
        done = server.cli("changefeed", "remove", "-c", "life")
        assert (done.returncode, done.stdout) == (0, f"changefeed life {said}\n")
    assert server.cli("changefeed", "query", "-c", "life").returncode == 1

    told = {
        (e["action"].rpartition("{feed}")[2] or e["action"][:6], e["outcome"]): e
        for e in server.cli_json("audit", "--object", "changefeed life")
    }
    assert told["POST /api/v2/changefeeds", "ok"]["after"]["config.filter.rules"] == [
        "op.a",
        "op.b",
    ]
    assert ("POST /api/v2/changefeeds", "TG:ErrChangeFeedAlreadyExists") in told
    assert told["/pause", "ok"]["after"] == {"state": "stopped"}
    assert ("/pause", "TG:ErrChangefeedUpdateRefused") in told
    assert told["/resume", "ok"]["after"]["state"] == "normal"
    assert told["DELETE", "ok"]["after"] is None
    assert SECRET not in server.cli("audit", "--json", "--limit", "2000").stdout


def test_a_table_whose_schema_is_lost_stops_and_shows_it(
    operated: tuple[CdcServer, str], mariadb: servers.Database, tmp_path: Path
) -> None:
    server, sink = operated
    config = _config(tmp_path, "[filter]\nrules = ['op.a', 'op.b']\n")
    _create(server, "ddl", sink, "--config", config)
    # The binlog has no word of how the table came by its column.
    mariadb.execute(
        "SET sql_log_bin = 0",
        "ALTER TABLE op.b ADD COLUMN w INT",
        "SET sql_log_bin = 1",
        "INSERT INTO op.b (id) VALUES (7001)",
    )

    def stopped() -> Any:
        found = server.cli_json("changefeed", "query", "-c", "ddl")
        return found if found["stopped_tables"] else None

    info = until(stopped, "the table stops")
    (table,) = info["stopped_tables"]
    assert table["table"] == "op.b"
    assert table["error"]["code"] == "TG:ErrSchemaMismatch"
    assert "in the binlog" in table["error"]["message"]
    assert info["state"] == "warning"
    assert info["checkpoint_ts"] == table["ts"] - 1

    # Another table goes on, so the ledger is ahead of the checkpoint: rows must not be moved now.
    mariadb.execute("INSERT INTO op.a VALUES (7001, 'x')")
    until(lambda: _ahead(sink, "ddl", info["checkpoint_ts"]), "the other table goes on")
    assert server.cli("changefeed", "pause", "-c", "ddl").returncode == 0
    words = ("changefeed", "update", "-c", "ddl", "--no-confirm", "--config")
    rule = "\n[[sink.dispatchers]]\nmatcher = ['op.*']\npartition = 'index-value'\n"
    moved = _config(tmp_path, "[filter]\nrules = ['op.a', 'op.b']\n" + rule)
    assert "[TG:ErrReroutingRefused]" in server.cli(*words, moved).stderr
    more = _config(
        tmp_path, "force-replicate = true\n[filter]\nrules = ['op.a', 'op.b', 'op.nokey']\n"
    )
    assert "[TG:ErrReroutingRefused]" in server.cli(*words, more).stderr
    fewer = _config(tmp_path, "[filter]\nrules = ['op.a']\n")
    assert server.cli(*words, fewer).returncode == 0
    server.cli("changefeed", "remove", "-c", "ddl")


@pytest.mark.parametrize(
    ("config", "sink", "code"),
    [
        ("", "kafka://127.0.0.1:1/t?protocol=canal-json", "TG:ErrTableIneligible"),
        ("bdr-mode = true", None, "TG:ErrConfigNotSupported"),
        (
            "enable-sync-point = true\n[filter]\nrules = ['op.a']",
            "kafka://127.0.0.1:1/t?protocol=canal-json",
            "TG:ErrSinkOptionNotSupported",
        ),
        ("force-replicat = true", None, "TG:ErrConfigUnknownKey"),
        ("case-sensitive = 1", None, "TG:ErrConfigInvalid"),
        ("[filter]\nrules = ['a.b.c[']", None, "TG:ErrFilterRuleInvalid"),
        ("x = ", None, "TG:ErrConfigFileInvalid"),
        ("force-replicate = true", "nonsense://x", "TG:ErrSinkURIInvalid"),
        ("force-replicate = true", "kafka://h/t", "TG:ErrSinkUnknownProtocol"),
        (
            "[filter]\nrules = ['op.a']",
            "kafka://127.0.0.1:1/t?protocol=canal-json",
            "TG:ErrKafkaUnavailable",
        ),
    ],
)
def test_what_is_refused_at_creation(
    operated: tuple[CdcServer, str], tmp_path: Path, config: str, sink: str | None, code: str
) -> None:
    server, good = operated
    file = _config(tmp_path, config)
    words = ("changefeed", "create", "-c", "bad", "-u", "main", "--config", file)
    done = server.cli(*words, "--sink-uri", sink or good)
    assert done.returncode == 1
    assert re.fullmatch(rf"Error: \[{code}\] .*\n", done.stderr), done.stderr
    assert "bad" not in [i["id"] for i in server.cli_json("changefeed", "list", "--all")]


def test_times(operated: tuple[CdcServer, str]) -> None:
    server, sink = operated
    words = ("changefeed", "create", "-c", "bad", "-u", "main", "--sink-uri", sink, "-y")
    now = server.cli_json("tso", "query")["tso"]
    future = str(now + (3_600_000 << 18))
    assert "[TG:ErrStartTsInvalid]" in server.cli(*words, "--start-ts", future).stderr
    assert "[TG:ErrTargetTsBeforeStartTs]" in server.cli(*words, "--target-ts", "7").stderr
    early = server.cli(*words, "--start-ts", "1000")
    assert "[TG:ErrLogCollected]" in early.stderr


def test_a_changefeed_starts_behind_a_ddl_that_no_snapshot_has_seen(
    operated: tuple[CdcServer, str], mariadb: servers.Database, tmp_path: Path
) -> None:
    server, sink = operated
    before = server.cli_json("upstream", "query", "-u", "main")["resolved_ts"]
    mariadb.execute("ALTER TABLE op.a ADD COLUMN late INT DEFAULT 5")

    def passed() -> Any:
        now = server.cli_json("upstream", "query", "-u", "main")["resolved_ts"]
        return now if now > before + (2000 << 18) else None

    start = str(until(passed, "the log passes the DDL"))
    config = _config(tmp_path, "[filter]\nrules = ['op.a']\n")
    _create(server, "behind", sink, "--start-ts", start, "--config", config)
    mariadb.execute("INSERT INTO op.a (id) VALUES (8001)")
    until(lambda: _ahead(sink, "behind", int(start)), "the row with the new column is delivered")
    found = server.cli_json("changefeed", "query", "-c", "behind")
    assert (found["state"], found["stopped_tables"]) == ("normal", [])
    server.cli("changefeed", "remove", "-c", "behind")


def test_no_secret_is_shown_anywhere(operated: tuple[CdcServer, str]) -> None:
    server, sink = operated
    secret_sink = f"{sink}&sasl-user=me&sasl-password={SECRET}&sasl-mechanism=plain"
    words = ("changefeed", "create", "-c", "secret", "-u", "main", "--sink-uri", secret_sink)
    shown = [server.cli(*words), server.cli("upstream", "list"), server.cli("upstream", "list")]
    shown.append(server.cli("upstream", "query", "-u", "main", "--json"))
    text = "".join(d.stdout + d.stderr for d in shown) + server.log.read_text()
    text += server.api("GET", "/upstreams").text
    assert SECRET not in text
    assert "******" in text
