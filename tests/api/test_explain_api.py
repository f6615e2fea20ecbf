"""What a configuration would do, asked of a running server about a real upstream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.api.server_process import CdcServer, run_cdc

CONFIG = """\
[filter]
rules = ["explained.*", "!explained.tmp_*"]
[sink]
[[sink.dispatchers]]
matcher = ["explained.a"]
target-schema = "archive"
partition = "index-value"
"""


@pytest.fixture(scope="module")
def asked(server: CdcServer, mariadb: servers.Database) -> CdcServer:
    """A server with the upstream ``explained``."""
    mariadb.execute(
        "CREATE DATABASE explained",
        "CREATE TABLE explained.a (id INT PRIMARY KEY)",
        "CREATE TABLE explained.tmp_1 (id INT PRIMARY KEY)",
        "CREATE TABLE explained.nokey (id INT)",
        "CREATE USER explainer IDENTIFIED BY 'a-password'",
        "GRANT ALL ON *.* TO explainer",
    )
    uri = f"mysql://explainer:a-password@127.0.0.1:{mariadb.port}"
    server.cli_json("upstream", "create", "-u", "explained", "--uri", uri)
    return server


def _explain(server: CdcServer, *words: str) -> Any:
    done = run_cdc("filter", "explain", *words, "--server", server.url, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "feed.toml"
    file.write_text(CONFIG)
    return str(file)


def test_all_tables_of_an_upstream(asked: CdcServer, config: str) -> None:
    found = _explain(asked, "--upstream", "explained", "--config", config)
    ours = {t["table"]: t for t in found["tables"] if t["table"].startswith("explained.")}
    assert {name: t["verdict"] for name, t in ours.items()} == {
        "explained.a": "replicated",
        "explained.tmp_1": "left out",
        "explained.nokey": "left out",
    }
    assert ours["explained.a"]["target"] == "archive.a"
    assert ours["explained.tmp_1"]["line"] == f"{config}:2"
    assert "primary key" in ours["explained.nokey"]["why"]


def test_one_table_and_one_statement(asked: CdcServer, config: str) -> None:
    words = ("--upstream", "explained", "--config", config)
    table = _explain(asked, *words, "--table", "explained.a")
    said = {step["about"]: step["verdict"] for step in table["steps"]}
    assert said["partition"] == "index-value (id)"
    sql = "ALTER TABLE tmp_1 ADD a INT"
    statement = _explain(asked, *words, "--ddl", sql, "--schema", "explained")
    assert statement["verdict"] == "outside"


def test_all_tables_and_those_that_a_changefeed_would_deliver(asked: CdcServer) -> None:
    body = {"upstream": "explained", "replica_config": {"filter": {"rules": ["explained.*"]}}}

    def names(path: str) -> dict[str, set[str]]:
        found = asked.api("POST", path, body).json()
        return {
            key: {f"{t['database_name']}.{t['table_name']}" for t in tables}
            for key, tables in found.items()
        }

    every = names("/get_all_tables")
    rules = {"explained.a", "explained.tmp_1", "explained.nokey"}
    assert every["eligible_tables"] == {"explained.a", "explained.tmp_1"}
    assert every["ineligible_tables"] == {"explained.nokey"}
    assert every["all_tables"] >= rules
    assert names("/verify_table").keys() == {"eligible_tables", "ineligible_tables"}
    # What no rule matches is among all of them.
    body["replica_config"] = {"filter": {"rules": ["explained.a"]}}
    assert names("/get_all_tables") == every | {
        "eligible_tables": {"explained.a"},
        "ineligible_tables": set(),
    }


def test_a_dry_run_creates_nothing(asked: CdcServer, config: str) -> None:
    words = ("-u", "explained", "--sink-uri", "kafka://127.0.0.1:1/t?protocol=canal-json")
    create = ("changefeed", "create", "-c", "dry", *words, "--config", config)
    found: Any = asked.cli_json(*create, "--dry-run")
    names = {k: [t["table_name"] for t in found[k]] for k in found}
    assert names == {"eligible_tables": ["a"], "ineligible_tables": ["nokey"]}
    assert not [i for i in asked.cli_json("changefeed", "list", "--all") if i["id"] == "dry"]


def test_a_mistake_is_named_with_its_line(asked: CdcServer, tmp_path: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text(CONFIG.replace('"!explained.tmp_*"', '"!explained"'))
    uri = "kafka://127.0.0.1:1/t?protocol=canal-json"
    words = ("changefeed", "create", "-u", "explained", "--sink-uri", uri, "--config", str(file))
    failed = asked.cli(*words, "--dry-run")
    assert failed.returncode == 1
    assert "TG:ErrFilterRuleInvalid" in failed.stderr
    assert f"{file}:2" in failed.stderr
