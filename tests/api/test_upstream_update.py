"""``upstream update``: other credentials for the same server; the log stays, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from cdc.base.position import Position
from cdc.changelog.reader import ChangeLog
from cdc.client import Access, Client
from cdc.coord.messages import UpstreamInfo
from cdc.server.nodes import NodesInvalid
from cdc.server.upstream_access import NewAccess, changed
from cdc.source.connection import parse_uri, with_login
from cdc.source.errors import UpstreamUriInvalid
from tests.api.server_process import CdcServer, without_spark
from tests.servers.database import Database, database
from tests.waiting import until

OLD, NEW = "0ld-Pl4nted", "N3w/Pl4nted@"
GRANT = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.* TO "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcServer]:
    with without_spark(tmp_path_factory.mktemp("update")) as made:
        yield made


def _status(server: CdcServer) -> dict[str, Any]:
    found: dict[str, Any] = server.api("GET", "/upstreams/moved").json()
    return found


def _rows(folder: Path) -> int:
    with closing(ChangeLog.open(folder)) as log:
        runs = log.runs(Position(log.state.first_ts), Position(log.state.resolved_ts))
        return int(runs.rows.sum())


@pytest.fixture
def folder(server: CdcServer, mysql: Database) -> Iterator[Path]:
    """The log of an upstream "moved" that a user with a password of its own pulls."""
    mysql.execute(
        f"CREATE USER 'mover'@'%' IDENTIFIED WITH mysql_native_password BY '{OLD}'",
        f"{GRANT}'mover'@'%'",
        "CREATE DATABASE moved",
        "CREATE TABLE moved.t (id INT PRIMARY KEY)",
    )
    made = server.cli("upstream", "create", "-u", "moved", "--uri", mysql.uri("mover", OLD))
    assert made.returncode == 0, made.stderr
    yield server.data_dir / "log" / "moved" / "0"
    assert server.api("DELETE", "/upstreams/moved").is_success
    mysql.execute("DROP DATABASE moved", "DROP USER 'mover'@'%'")


def test_a_password_is_changed_under_a_puller_and_nothing_is_lost(
    server: CdcServer, mysql: Database, folder: Path, tmp_path: Path
) -> None:
    mysql.execute("INSERT INTO moved.t VALUES (1)")
    until(lambda: _rows(folder) == 1, "it is pulled")
    mysql.execute(f"ALTER USER 'mover'@'%' IDENTIFIED WITH mysql_native_password BY '{NEW}'")
    mysql.kill_connections("user = 'mover'")
    mysql.execute("INSERT INTO moved.t VALUES (2)")
    until(lambda: _status(server)["state"] == "failed", "the old password is refused")
    said = _status(server)["error"]
    assert said["code"] == "TG:ErrUpstreamNotReady"
    assert "Access denied" in said["message"]

    secret = tmp_path / "secret"
    secret.write_text(f"{NEW}x\n")
    words = ("upstream", "update", "-u", "moved", "--password-file", str(secret))
    refused = server.cli(*words)
    assert refused.returncode == 1
    assert "[TG:ErrUpstreamNotReady]" in refused.stderr
    secret.write_text(f"{NEW}\n")
    done = server.cli(*words)
    assert done.returncode == 0, done.stderr
    mysql.execute("INSERT INTO moved.t VALUES (3)")
    until(lambda: _rows(folder) == 3, "what came meanwhile and what comes is pulled")
    assert _status(server)["error"] is None

    entries = server.api("GET", "/audit?object=upstream moved").json()["items"]
    assert [e["outcome"] for e in entries[-2:]] == ["TG:ErrUpstreamNotReady", "ok"]
    masked = f"mysql://mover:******@127.0.0.1:{mysql.port}"
    assert (entries[-1]["before"], entries[-1]["after"]) == ({"uri": masked}, {"uri": masked})
    shown = f"{entries}{done.stdout}{done.stderr}{refused.stderr}{server.log.read_text()}"
    assert OLD not in shown
    assert NEW not in shown


def test_a_puller_that_runs_connects_anew(server: CdcServer, mysql: Database, folder: Path) -> None:
    """Another user while all is well: connections of the old one end, the log goes on."""
    mysql.execute("CREATE USER 'other'@'%'", f"{GRANT}'other'@'%'")
    with Client(Access(server.url, token=server.token)) as client:
        info = client.update_upstream("moved", user="other", password="")
    assert info.uri == f"mysql://other@127.0.0.1:{mysql.port}"
    dumps = "SELECT DISTINCT user FROM information_schema.processlist WHERE command LIKE 'Binlog%'"
    until(lambda: ("other",) in mysql.execute(dumps), "it pulls as the other one")
    until(lambda: ("mover",) not in mysql.execute(dumps), "and not as the old one")
    mysql.execute("INSERT INTO moved.t VALUES (10)")
    until(lambda: _rows(folder) == 1, "it is pulled")
    mysql.execute("DROP USER 'other'@'%'")


def test_an_upstream_has_a_tag(server: CdcServer, folder: Path) -> None:
    looked = server.api("GET", "/upstreams/moved")
    tag = looked.headers["ETag"]

    def sent(method: str, given: str) -> httpx.Response:
        body = {"json": {}} if method == "PUT" else {}
        head = {"If-Match": given}
        return server.send(method, "/api/v2/upstreams/moved", headers=head, **body)

    changed = sent("PUT", tag)
    assert changed.is_success
    assert changed.headers["ETag"] == server.api("GET", "/upstreams/moved").headers["ETag"] != tag
    for method in ("PUT", "DELETE"):
        refused = sent(method, tag)
        assert refused.status_code == 412
        assert refused.json()["error_code"] == "TG:ErrChangedSince"
    assert folder.exists()


def test_another_server_is_refused_by_name(
    server: CdcServer, mysql: Database, mariadb: Database, folder: Path
) -> None:
    before = _status(server)
    with database("mysql-8.0") as twin:
        for db, why in ((twin, "its uuid is"), (mariadb, "of mariadb, and the log of mysql")):
            refused = server.api("PUT", "/upstreams/moved", {"uri": db.uri()})
            assert refused.status_code == 400
            assert refused.json()["error_code"] == "TG:ErrUpstreamOtherServer"
            assert why in refused.json()["error_msg"]
    gone = server.api("PUT", "/upstreams/moved", {"uri": twin.uri()})
    assert (gone.status_code, gone.json()["error_code"]) == (503, "TG:ErrUpstreamGone")
    poor = {"user": "poor", "password": ""}
    mysql.execute("CREATE USER 'poor'@'%'")
    refused = server.api("PUT", "/upstreams/moved", poor)
    assert refused.json()["error_code"] == "TG:ErrUpstreamNotReady"
    mysql.execute("DROP USER 'poor'@'%'")
    assert "privilege REPLICATION SLAVE is missing" in refused.json()["error_msg"]
    assert server.api("PUT", "/upstreams/none", poor).status_code == 404
    assert _status(server)["uri"] == before["uri"]
    assert _status(server)["error"] is None
    assert folder.exists()


def test_changes_as_values() -> None:
    uri = "mysql://ann:a%2Fb@h:1?ssl-mode=required"
    assert with_login(uri, "b@b", None) == "mysql://b%40b:a%2Fb@h:1?ssl-mode=required"
    assert with_login(uri, None, "") == "mysql://ann@h:1?ssl-mode=required"
    assert parse_uri(with_login("mysql://ann@[::1]:1", None, "p@/:")).password == "p@/:"
    one = UpstreamInfo(name="u", uri=uri, ca="ca.pem", server_uuid="x")
    found = changed(one, NewAccess(password="new", ca="", cert="c.pem"))
    assert (found.uri, found.ca, found.cert, found.server_uuid) == (
        "mysql://ann:new@h:1?ssl-mode=required", None, "c.pem", "x"
    )  # fmt: skip
    assert changed(one, NewAccess()) == one
    nodes = [UpstreamInfo(name=f"s.{n}", uri=f"mysql://ann:1@{n}", kind="node") for n in "ab"]
    several = UpstreamInfo(name="s", uri="", kind="shards", nodes=nodes)
    found = changed(several, NewAccess(password="2", ca="ca"), {"b": NewAccess(user="bob")})
    assert [n.uri for n in found.nodes] == ["mysql://ann:2@a", "mysql://bob:2@b"]
    assert {found.ca, *(n.ca for n in found.nodes)} == {"ca"}
    assert found.uri == ""
    for info, asked, theirs in (
        (several, NewAccess(uri="mysql://x@c"), {}),
        (several, NewAccess(), {"c": NewAccess(user="x")}),
        (one, NewAccess(), {"a": NewAccess(user="x")}),
        (several, NewAccess(), {"b": NewAccess(uri="mysql://ann@a")}),
    ):
        with pytest.raises(NodesInvalid):
            changed(info, asked, theirs)
    with pytest.raises(UpstreamUriInvalid):
        changed(one, NewAccess(uri="mysql://h"))
    assert "new" not in repr(NewAccess(password="new", uri="mysql://a:new@h"))
