"""Registering real servers: what is missing is named, and the snapshot belongs to its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import UpstreamInfo
from cdc.schema.snapshot import catalog
from cdc.schema.table_copy import Proof
from cdc.source.errors import UpstreamGone, UpstreamNotReady, UpstreamUriInvalid
from cdc.source.readiness import check_upstream
from cdc.source.registration import register, schema_now
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import take_snapshot
from cdc.source.start import StartInvalid, find_start
from cdc.source.statements import History
from filter.rules import TableRules
from tests.servers.database import Database, database
from tests.source.pulling import CLOCK, Pulled

SETTINGS = SourceSettings()


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_each_lack_is_named_with_its_statement(name: str) -> None:
    with database(name) as db:
        db.execute(
            "SET GLOBAL binlog_format = 'MIXED'",
            "SET GLOBAL binlog_row_image = 'MINIMAL'",
            "CREATE USER poor@'%' IDENTIFIED BY 'secret'",
        )
        info = UpstreamInfo(name="u", uri=db.uri("poor", "secret"))
        found = {f.statement for f in check_upstream(info, SETTINGS) if f.fatal}
        monitor = "BINLOG MONITOR" if name.startswith("maria") else "REPLICATION CLIENT"
        assert found == {
            "SET GLOBAL binlog_format = 'ROW'",
            "SET GLOBAL binlog_row_image = 'FULL'",
            "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%'",
            f"GRANT {monitor} ON *.* TO 'poor'@'%'",
            "GRANT SELECT ON *.* TO 'poor'@'%'",
        }
        db.execute(*found)
        assert not [f for f in check_upstream(info, SETTINGS) if f.fatal]


def test_bad_uri_password_and_address(database: Callable[..., Database], tmp_path: Path) -> None:
    db = database("mysql-8.0")
    for uri in ("mysql://", "http://u:p@h", "mysql://u:p@h:99999", "mysql://u:p@h/?x=1"):
        with pytest.raises(UpstreamUriInvalid):
            check_upstream(UpstreamInfo(name="u", uri=uri), SETTINGS)
    with pytest.raises(UpstreamNotReady) as wrong:
        check_upstream(UpstreamInfo(name="u", uri=db.uri("root", "hunter2")), SETTINGS)
    assert "hunter2" not in str(wrong.value)
    with pytest.raises(UpstreamGone):
        check_upstream(UpstreamInfo(name="u", uri="mysql://root@127.0.0.1:1"), SETTINGS)


def test_tls_with_verification_and_caching_sha2(tmp_path: Path) -> None:
    with database("mysql-8.0", tls=True) as db:
        db.execute(
            "CREATE USER s@'%' IDENTIFIED WITH caching_sha2_password BY 'pw' REQUIRE SSL",
            "CREATE USER n@'%' IDENTIFIED WITH mysql_native_password BY 'pw'",
            "CREATE USER k@'%' IDENTIFIED WITH caching_sha2_password BY 'pw'",
            "GRANT ALL ON *.* TO s@'%', n@'%', k@'%'",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY)",
        )
        assert db.tls is not None
        ca = str(db.tls.ca)
        # Without TLS caching_sha2 sends the password under the server's RSA key.
        for user in ("n", "k"):
            plain = UpstreamInfo(name="u", uri=db.uri(user, "pw") + "?ssl-mode=disabled")
            assert not [f for f in check_upstream(plain, SETTINGS) if f.fatal]
        strange = tmp_path / "other.pem"
        from tests.servers import tls

        strange = tls.make(tmp_path / "other").ca
        with pytest.raises(UpstreamNotReady):
            check_upstream(UpstreamInfo(name="u", uri=db.uri("s", "pw"), ca=str(strange)), SETTINGS)
        with Pulled(db, tmp_path / "log", uri=db.uri("s", "pw"), ca=ca) as p:
            db.execute("INSERT INTO d.t VALUES (1),(2)")
            p.caught_up()
            assert p.rows() == 2


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_a_start_within_a_transaction_is_refused_with_where_that_begins(name: str) -> None:
    with database(name) as db:
        db.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
        db.execute("FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (1)")
        with db.connect(database="d", autocommit=False) as one, one.cursor() as cursor:
            for value in (2, 3):
                cursor.execute(f"INSERT INTO t VALUES ({value})")
            one.commit()
        db.execute("INSERT INTO d.t VALUES (4)")
        file = db.binlogs()[-1].name
        shown = db.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        begins = [int(e[1]) for e in shown if str(e[2]).lower().endswith("gtid")][:3]
        # Between two events, and within one.
        inner = [int(e[1]) for e in shown if begins[1] < int(e[1]) < begins[2]]
        info = UpstreamInfo(name="u", uri=db.uri(), server_kind=db.kind)
        end, _ = take_snapshot(info, SETTINGS)
        for place in begins:
            assert find_start(info, f"{file}:{place}", end, SETTINGS)[0].pos == place
        for place in (*inner, inner[-1] + 3):
            with pytest.raises(StartInvalid) as refused:
                find_start(info, f"{file}:{place}", end, SETTINGS)
            assert refused.value.hint.startswith(f"{file}:{begins[1]}, where")


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_snapshot_and_earlier_starts(name: str, tmp_path: Path) -> None:
    with database(name) as db:
        db.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, `a``b` TEXT)")
        db.execute("FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (1, 'x')")
        file = db.binlogs()[-1].name
        with Pulled(db, tmp_path / "file", start=f"{file}:4") as p:
            p.caught_up()
            assert p.rows() == 1
            log, _ = p.runs()
            snapshot = log.snapshot_at(log.state.resolved_ts)
            assert set(snapshot["tables"]) >= {"d.t"}
            assert "PRIMARY KEY" in snapshot["tables"]["d.t"]
            assert snapshot["server"]["kind"] == p.info.server_kind
            log.close()
            db.execute("ALTER TABLE d.t ADD c INT")
            ts, _ = schema_now(p.info, p.folder, p.settings, CLOCK)
            log, _ = p.runs()
            assert "`c` int" in log.snapshot_at(ts)["tables"]["d.t"]
            log.close()
        asked = UpstreamInfo(name="u", uri=db.uri())
        for start in (f"{file}:4", "nonsense", "2001-01-01"):
            with (
                LogWriter.open(tmp_path / start[:4], p.log_settings, CLOCK) as writer,
                pytest.raises(Exception, match=r"TG:Err(UpstreamStartInvalid|BinlogPurged)"),
            ):
                register(asked, writer, SETTINGS, CLOCK, start)
        assert StartInvalid.code == "TG:ErrUpstreamStartInvalid"


def test_a_later_snapshot_keeps_what_only_statements_tell(
    mariadb: Database, tmp_path: Path, fresh_name: str
) -> None:
    """Each new changefeed takes one, also while an online schema change runs."""
    db, schema = mariadb, fresh_name
    db.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)")
    with Pulled(db, tmp_path / "log") as p:
        db.execute(
            f"CREATE /* gh-ost */ TABLE {schema}._t_gho LIKE {schema}.t",
            f"ALTER /* gh-ost */ TABLE {schema}._t_gho ADD c INT",
        )
        ts, _ = schema_now(p.info, p.folder, p.settings, CLOCK)
        log, _ = p.runs()
        kept = log.snapshot_at(ts)
        log.close()
    assert kept["ts"] == ts
    copy = catalog(kept).copy_of(schema, "_t_gho")
    assert copy is not None
    assert (copy.model, copy.proof) == ("t", Proof.GH_OST)
    assert [a.sql for a in copy.alterations or ()] == [
        f"ALTER /* gh-ost */ TABLE {schema}._t_gho ADD c INT"
    ]


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_of_few_tables_a_snapshot_is_taken_only_where_the_log_has_not_their_changes(
    name: str, database: Callable[..., Database], tmp_path: Path, fresh_name: str
) -> None:
    db, schema = database(name), fresh_name
    db.execute(
        f"CREATE DATABASE {schema}",
        f"CREATE TABLE {schema}.a (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        f"CREATE TABLE {schema}.b (id INT PRIMARY KEY)",
    )
    wanted = TableRules([f"{schema}.*", f"!{schema}.b"])
    with Pulled(db, tmp_path / "log") as p:

        def asked(*statements: str) -> tuple[bool, list[str]]:
            db.execute("SELECT 1", *statements, database=schema)
            ts, new = schema_now(p.info, p.folder, p.settings, CLOCK, wanted)
            log, _ = p.runs()
            found = History(log, ts).schema_at(ts)
            log.close()
            return new, sorted(f"{t}:{len(found[s, t].columns)}" for s, t in found if s == schema)

        begun = list(p.folder.rglob("*.json"))
        # What the log says of them is what the server has, and rows change no definition.
        assert asked() == (False, ["a:2", "b:1"])
        assert asked("INSERT INTO a (v) VALUES (1), (2)") == (False, ["a:2", "b:1"])
        assert asked(
            "ALTER TABLE a ADD c VARCHAR(9) NOT NULL DEFAULT 'x', ADD KEY (c)",
            "CREATE TABLE d LIKE a",
            "DROP TABLE d",
        ) == (False, ["a:3", "b:1"])
        # Of others it is not asked.
        unlogged = "SET SESSION sql_log_bin = 0"
        assert asked(unlogged, "ALTER TABLE b ADD c INT") == (False, ["a:3", "b:1"])
        assert list(p.folder.rglob("*.json")) == begun
        # What happened past the binlog, to one of them or by another one, is seen.
        assert asked(unlogged, "ALTER TABLE a DROP c") == (True, ["a:2", "b:2"])
        assert asked(unlogged, "CREATE TABLE e (id INT PRIMARY KEY)") == (
            True,
            ["a:2", "b:2", "e:1"],
        )
        assert asked(unlogged, "DROP TABLE e") == (True, ["a:2", "b:2"])
        assert asked() == (False, ["a:2", "b:2"])


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_what_does_not_forbid_is_kept_with_the_upstream(
    name: str, database: Callable[..., Database], tmp_path: Path
) -> None:
    db = database(name)
    before = db.execute("SELECT @@global.binlog_row_metadata, @@global.binlog_expire_logs_seconds")
    metadata, seconds = before[0]
    db.execute(
        "SET GLOBAL binlog_row_metadata = 'MINIMAL'", "SET GLOBAL binlog_expire_logs_seconds = 600"
    )
    try:
        asked = UpstreamInfo(name="u", uri=db.uri())
        with LogWriter.open(tmp_path / "log", ChangelogSettings(), CLOCK) as writer:
            info = register(asked, writer, SETTINGS, CLOCK)
        statements = [f.statement for f in info.findings]
        assert statements == [
            "SET GLOBAL binlog_row_metadata = 'FULL'",
            "SET GLOBAL binlog_expire_logs_seconds = 259200",
        ]
        db.execute(*statements)
        assert not check_upstream(asked, SETTINGS)
    finally:
        db.execute(
            f"SET GLOBAL binlog_row_metadata = '{metadata}'",
            f"SET GLOBAL binlog_expire_logs_seconds = {seconds}",
        )
