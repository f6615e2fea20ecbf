"""What cannot work is refused at creation: one line, one hint, no traceback; no secret anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way
from tests.servers import Database, broker

pytestmark = pytest.mark.real

SECRET = "Gr3at/S3cret@:#word"


@pytest.mark.parametrize(
    ("sink", "config", "code"),
    [
        ("kafka://{b}/t?protocol=canal-json&compresion=lz4", "", "TG:ErrSinkUnknownOption"),
        ("kafka://{b}/t?protocol=canal-jsn", "", "TG:ErrSinkUnknownProtocol"),
        ("kafka://{b}/t?protocol=avro", "", "TG:ErrSinkProtocolNotSupported"),
        ("kafka://{b}/t?protocol=canal-json&partition-num=many", "", "TG:ErrSinkURIInvalid"),
        ("kafka://{b}/t?protocol=canal-json&partition-num=0", "", "TG:ErrSinkURIInvalid"),
        ("kafka://{b}?protocol=canal-json", "", "TG:ErrSinkURIInvalid"),
        ("kafka://{b}/bad topic?protocol=canal-json", "", "TG:ErrSinkURIInvalid"),
        ("oracle://root@{b}/", "", "TG:ErrSinkURIInvalid"),
        ("mysql://root@{b}/?timeout=2s", "", "TG:ErrMysqlUnavailable"),
        ("mysql://root@127.0.0.1:9/", "", "TG:ErrMysqlUnavailable"),
        ("nothing", "", "TG:ErrSinkURIInvalid"),
        ("kafka://127.0.0.1:9/t?protocol=canal-json", "", "TG:ErrKafkaUnavailable"),
        ("kafka://{b}/t?protocol=canal-json&auto-create-topic=false", "", "TG:ErrKafkaTopic"),
        ("kafka://{b}/t?protocol=canal-json", "[sink]\nprotcol = 'x'", "TG:ErrSinkUnknownOption"),
        ("kafka://{b}/t?protocol=canal-json", "memory-quot = 1", "TG:ErrConfigUnknownKey"),
        ("kafka://{b}/t?protocol=canal-json", "case-sensitive = 'x'", "TG:ErrConfigInvalid"),
        (
            "kafka://{b}/t?protocol=canal-json",
            "[[sink.dispatchers]]\nmatcher = ['*.*']\npartition = 'round'",
            "TG:Err",
        ),
        (
            "kafka://{b}/t?protocol=canal-json",
            "[[sink.dispatchers]]\nmatcher = ['*.*']\npartition = 'columns'\ncolumns = ['no']",
            "TG:ErrDispatcherFailed",
        ),
        (
            "kafka://{b}/t?protocol=canal-json",
            "[[sink.dispatchers]]\nmatcher = ['*.*']\ntopic = '{{table}}_{{schema}}'",
            "TG:ErrTopicExpressionInvalid",
        ),
    ],
)
def test_a_changefeed_that_cannot_work(
    way: Way, tmp_path: Path, sink: str, config: str, code: str
) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    file = tmp_path / "feed.toml"
    rules = f"[filter]\nrules = ['{way.schema}.*']\n"
    file.write_text(
        f"{config.format()}\n{rules}" if "[" not in config else f"{rules}{config.format()}"
    )
    done = way.capture.cli(
        *("changefeed", "create", "-c", way.name, "-u", way.upstream, "--config", str(file)),
        *("--sink-uri", sink.format(b=way.broker.bootstrap)),
    )
    assert done.returncode == 1, done.stdout
    assert done.stdout == ""
    assert re.fullmatch(r"Error: \[TG:Err\w+\] [^\n]+; hint: [^\n]+\n", done.stderr), done.stderr
    assert code in done.stderr
    assert way.capture.api("GET", f"/changefeeds/{way.name}").status_code == 404
    assert "Traceback" not in way.capture.text()


def test_missing_privileges_are_named_with_their_statements(
    capture: CaptureProcess, database: Callable[..., Database], fresh_name: str
) -> None:
    for server in ("mariadb-11.4", "mysql-8.0"):
        db = database(server)
        user = fresh_name[-20:]
        db.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
        done = capture.cli("upstream", "create", "-u", "poor", "--uri", db.uri(user, "pw"))
        assert done.returncode == 1
        assert done.stderr.startswith("Error: [TG:ErrUpstreamNotReady]")
        statements = re.findall(r"GRANT [A-Z ]+ ON \*\.\* TO '\w+'@'%'", done.stderr)
        assert len(statements) == 3, done.stderr
        db.execute(*statements)
        assert (
            capture.cli("upstream", "create", "-u", "poor", "--uri", db.uri(user, "pw")).returncode
            == 0
        )
        assert capture.cli("upstream", "remove", "-u", "poor").returncode == 0


def test_passwords_appear_nowhere(
    capture: CaptureProcess, mysql: Database, fresh_name: str, tmp_path: Path
) -> None:
    config = tmp_path / "changefeed.toml"
    config.write_text(f"[filter]\nrules = ['{fresh_name}.*']\n")
    user = fresh_name[-20:]
    mysql.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY '{SECRET}'")
    mysql.execute(f"GRANT ALL ON *.* TO '{user}'@'%'", f"CREATE DATABASE {fresh_name}")
    mysql.execute(f"CREATE TABLE {fresh_name}.t (id INT PRIMARY KEY)")
    uri = mysql.uri(user, SECRET)
    encoded = uri.split(":")[2].rsplit("@")[0]
    heard = [capture.cli("upstream", "create", "-u", "secret", "--uri", uri)]
    assert heard[0].returncode == 0, heard[0].stderr
    with broker(sasl=True) as kafka:
        sink = (
            f"kafka://{kafka.bootstrap}/{fresh_name}?protocol=canal-json&write-timeout=1s&read-timeout=2s"
            f"&sasl-user=tidegate&sasl-mechanism=PLAIN&sasl-password="
        )
        feed = ("changefeed", "create", "-c", "hush", "-u", "secret", "--config", str(config))
        feed += ("--sink-uri",)
        heard.append(capture.cli(*feed, sink + encoded))
        assert "TG:ErrKafkaNotAuthorized" in heard[-1].stderr
        body = capture.body("hush", "secret", sink + "tidegate", [f"{fresh_name}.*"])
        assert capture.api("POST", "/changefeeds", body).is_success
        mysql.execute(f"INSERT INTO {fresh_name}.t VALUES (1)")
        capture.wait_checkpoint("hush")
        kafka.kill()
        mysql.execute(f"INSERT INTO {fresh_name}.t VALUES (2)")
        capture.wait_state("hush", "warning")
        for words in (
            *(("upstream", "list"), ("upstream", "query", "-u", "secret")),
            *(("changefeed", "list"), ("changefeed", "query", "-c", "hush")),
        ):
            heard += [capture.cli(*words), capture.cli(*words, "--json")]
        metrics = capture._http.get(f"{capture.url}/metrics").text
        capture.ask("DELETE", "/changefeeds/hush")
    everything = capture.text() + metrics + "".join(h.stdout + h.stderr for h in heard)
    for word in (SECRET, encoded, "sasl-password=tidegate"):
        assert word not in everything


def test_wrong_password_of_an_upstream(capture: CaptureProcess, mysql: Database) -> None:
    done = capture.cli("upstream", "create", "-u", "wrong", "--uri", mysql.uri("nobody", SECRET))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: [TG:ErrUpstreamNotReady]")
    assert SECRET not in done.stderr
