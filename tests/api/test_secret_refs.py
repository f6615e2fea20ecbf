"""Secrets as references: stored and shown in a password's place, read where it is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from cdc.base import egress
from cdc.base.egress import Egress, FileNotAllowed
from cdc.base.secret_refs import SecretUnusable, is_reference, resolved
from cdc.base.secrets import mask_uri
from sink.kafka.settings import KafkaSettings
from sink.mysql.settings import MysqlSettings
from tests.api.server_process import CdcServer
from tests.servers.database import Database
from tests.waiting import until

SECRET, NEXT = "r3f-Pl4nted", "n3xt-Pl4nted"
NAME = "TIDEGATE_SECRET_TARGET"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files may be used."""
    made = tmp_path / "secrets"
    made.mkdir()
    monkeypatch.setenv(egress.VARIABLE, Egress(secret_folders=(made,)).model_dump_json())
    return made


def test_what_a_reference_leads_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, SECRET)
    assert resolved(f"env:{NAME}") == SECRET
    (folder / "db").write_text(f"{SECRET}\r\nmore")
    assert resolved(f"file:{folder}/db") == SECRET
    # As orchestrators mount them: by links within the folder.
    (folder / "..data").mkdir()
    (folder / "..data" / "pw").write_text(NEXT)
    (folder / "pw").symlink_to("..data/pw")
    assert resolved(f"file:{folder}/pw") == NEXT
    for text in ("", "pw", "environment:x", "ENV:X", "file"):
        assert resolved(text) == text


def test_what_no_reference_may_lead_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv(NAME, raising=False)
    outside = folder.parent / "outside"
    outside.write_text(SECRET)
    (folder / "link").symlink_to(outside)
    (folder / "empty").touch()
    (folder / "binary").write_bytes(b"\xff\xfe")
    for text, error in (
        ("env:AWS_SECRET_ACCESS_KEY", SecretUnusable),
        (f"env:{NAME}", SecretUnusable),
        (f"file:{outside}", FileNotAllowed),
        (f"file:{folder}/../outside", FileNotAllowed),
        (f"file:{folder}/link", FileNotAllowed),
        ("file:/proc/self/environ", FileNotAllowed),
        (f"file:{folder}/none", SecretUnusable),
        (f"file:{folder}/empty", SecretUnusable),
        (f"file:{folder}/binary", SecretUnusable),
        (f"file:{folder}", SecretUnusable),
    ):
        with pytest.raises(error) as refused:
            resolved(text)
        assert text.removeprefix("file:") in refused.value.object
        assert SECRET not in str(refused.value)
    # It may be a password that only begins so.
    for text in (f"env:{SECRET}!", f"file:{SECRET}", "env:", "file:relative/path"):
        assert not is_reference(text)
        with pytest.raises(SecretUnusable) as refused:
            resolved(text)
        assert text.partition(":")[2] in ("",) or text.partition(":")[2] not in str(refused.value)
    monkeypatch.delenv(egress.VARIABLE)
    with pytest.raises(FileNotAllowed):
        resolved(f"file:{folder}/pw")


def test_references_are_shown_and_secrets_are_not() -> None:
    uri = f"mysql://u:env:{NAME}@h/"
    assert mask_uri(uri) == uri
    file = f"kafka://h/t?sasl-user=u&sasl-password={quote('file:/run/secrets/kafka')}"
    assert "file:/run/secrets/kafka" in mask_uri(file)
    for secret in ("env:", "env:a-b", f"file:{SECRET}", f"x-env:{NAME}"):
        assert secret not in mask_uri(f"mysql://u:{quote(secret, safe='')}@h/")


def test_sinks_read_them_at_each_use(folder: Path) -> None:
    reference = f"file:{folder}/pw"
    target = MysqlSettings.parse(f"mysql://u:{quote(reference, safe='')}@127.0.0.1/")
    brokers = KafkaSettings.parse(
        "kafka://127.0.0.1/t?protocol=canal-json&sasl-user=u&sasl-password="
        + quote(reference, safe="")
    )
    for secret in (SECRET, NEXT):
        (folder / "pw").write_text(secret)
        assert target.given_password.get_secret_value() == secret
        assert brokers.client_config()["sasl_plain_password"] == secret
        assert secret not in f"{target!r} {brokers!r} {target.model_dump_json()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcServer]:
    """A server with Spark: its workers read secrets too."""
    folder = tmp_path_factory.mktemp("refs")
    (folder / "secrets").mkdir()
    config = folder / "server.toml"
    config.write_text(f'[security.egress]\nsecret-folders = ["{folder}/secrets"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, SECRET)
        made = CdcServer(folder / "data", "--config", str(config))
        try:
            yield made.start()
        finally:
            made.end()


@pytest.mark.slow
def test_a_changefeed_whose_passwords_are_references(
    server: CdcServer, mysql: Database, mariadb: Database, tmp_path: Path
) -> None:
    file = server.data_dir.parent / "secrets" / "upstream"
    file.write_text(f"{SECRET}\n")
    grants = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT, XA_RECOVER_ADMIN"
    mysql.execute(
        f"CREATE USER 'refs'@'%' IDENTIFIED WITH mysql_native_password BY '{SECRET}'",
        f"GRANT {grants} ON *.* TO 'refs'@'%'",
        "CREATE DATABASE refs",
        "CREATE TABLE refs.t (id INT PRIMARY KEY)",
    )
    mariadb.execute(
        f"CREATE USER 'refs'@'%' IDENTIFIED BY '{SECRET}'",
        "GRANT ALL ON *.* TO 'refs'@'%'",
        "CREATE DATABASE refs",
        "CREATE TABLE refs.t (id INT PRIMARY KEY)",
    )
    refused = server.api(
        "POST", "/upstreams", {"name": "refs", "uri": mysql.uri("refs", "file:/etc/hostname")}
    )
    assert refused.json()["error_code"] == "TG:ErrFileNotAllowed"
    uri = mysql.uri("refs", f"file:{file}")
    made = server.cli("upstream", "create", "-u", "refs", "--uri", uri)
    assert made.returncode == 0, made.stderr
    target = mariadb.uri("refs", f"env:{NAME}")
    # The server has what other tests have left, too.
    config = tmp_path / "refs.toml"
    config.write_text('[filter]\nrules = ["refs.*"]\n')
    words = ("-c", "refs", "--sink-uri", f"{target}/", "--config", str(config))
    made = server.cli("changefeed", "create", "-u", "refs", *words)
    assert made.returncode == 0, made.stderr
    mysql.execute("INSERT INTO refs.t VALUES (1)")
    rows = "SELECT COUNT(*) FROM refs.t"
    until(lambda: mariadb.execute(rows) == [(1,)], "a worker of Spark has delivered it")

    # Another secret in the file: nobody has to be told.
    file.write_text(f"{NEXT}\n")
    mysql.execute(f"ALTER USER 'refs'@'%' IDENTIFIED WITH mysql_native_password BY '{NEXT}'")
    mysql.kill_connections("user = 'refs'")
    mysql.execute("INSERT INTO refs.t VALUES (2)")
    until(lambda: mariadb.execute(rows) == [(2,)], "it is pulled under the new one")

    shown = server.api("GET", "/upstreams/refs").text + server.api("GET", "/changefeeds/refs").text
    assert f"env:{NAME}" in shown
    shown += server.api("GET", "/audit").text + server.log.read_text()
    for path in server.data_dir.rglob("*"):
        if path.is_file() and "log" not in path.relative_to(server.data_dir).parts[:1]:
            shown += path.read_bytes().decode("latin-1")
    assert SECRET not in shown
    assert NEXT not in shown
