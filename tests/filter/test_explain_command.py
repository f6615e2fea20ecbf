"""``cdc filter explain`` without a server: lines of the file, files of rules, errors by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc.base.errors import InvalidError
from cdc.cli.config_file import read_config
from cdc.cli.filter import app

CONFIG = """\
case-sensitive = false
[filter]
rules = [
  "shop.*",
  "@more.rules",   # from another file
  "!shop.tmp_*",
]
[[filter.event-filters]]
matcher = ["shop.orders"]
ignore-event = ["delete"]
ignore-sql = ["^drop"]
[sink]
[[sink.dispatchers]]
matcher = ["shop.*"]
topic = "{schema}_x"
partition = "index-value"
[[sink.column-selectors]]
matcher = ["shop.orders"]
columns = ["*", "!note"]
"""
MORE = "# rules of the others\nlog.*\n\n!log.secret\n"
TABLES = (
    "USE shop;\nCREATE TABLE orders (id INT PRIMARY KEY, note TEXT);\nCREATE TABLE bare (a INT);"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "feed.toml").write_text(CONFIG)
    (tmp_path / "more.rules").write_text(MORE)
    (tmp_path / "tables.sql").write_text(TABLES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def explain(*words: str) -> Any:
    found = CliRunner().invoke(
        app, ["explain", "--config", "feed.toml", "--json", *words], catch_exceptions=False
    )
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


def lines(answer: Any) -> dict[str, str]:
    return {step["about"]: step["line"] for step in answer["steps"]}


@pytest.mark.parametrize(
    ("table", "verdict", "line"),
    [
        ("shop.orders", "replicated", "feed.toml:4"),
        ("shop.tmp_1", "left out", "feed.toml:6"),
        ("log.a", "replicated", "more.rules:2"),
        ("log.secret", "left out", "more.rules:4"),
        ("other.a", "left out", "feed.toml:3"),
        ("`shop`.`a.b`", "replicated", "feed.toml:4"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_line_of_the_deciding_rule(table: str, verdict: str, line: str) -> None:
    answer = explain("--table", table)
    assert (answer["verdict"], lines(answer)["filter.rules"]) == (verdict, line)


@pytest.mark.usefixtures("folder")
def test_dispatch_columns_and_events_have_lines() -> None:
    answer = explain("--table", "shop.orders", "--tables", "tables.sql")
    found = lines(answer)
    assert found["delete"] == "feed.toml:10"
    assert found["topic"] == "feed.toml:15"
    assert found["partition"] == "feed.toml:13"
    assert found["columns"] == "feed.toml:17"
    verdicts = {step["about"]: step["verdict"] for step in answer["steps"]}
    assert verdicts["topic"] == "shop_x"
    assert verdicts["partition"] == "index-value (id)"
    assert verdicts["columns"] == "id"
    assert explain("--table", "shop.bare", "--tables", "tables.sql")["verdict"] == "left out"


@pytest.mark.usefixtures("folder")
def test_statements() -> None:
    answer = explain("--ddl", "DROP TABLE orders", "--schema", "shop")
    assert answer["verdict"] == "ignored"
    assert lines(answer)["shop.orders"] == "feed.toml:8"
    assert explain("--ddl", "CREATE SEQUENCE s", "--mariadb")["verdict"] == "discarded"
    assert explain("--ddl", "DROP DATABASE shop")["verdict"] == "ignored"


def test_rows(folder: Path) -> None:
    text = CONFIG.replace("ignore-sql", 'ignore-insert-value-expr = "id > 5"\nignore-sql')
    (folder / "feed.toml").write_text(text)
    words = ("--table", "shop.orders", "--tables", "tables.sql")
    answer = explain(*words, "--row", '{"id": 6, "note": "x"}')
    assert answer["verdict"] == "insert: ignored, update: deliver, delete: ignored"
    assert "feed.toml:11" in {step["line"] for step in answer["steps"]}
    for row, more, code in (
        ("[1]", words, "TG:ErrFilterNothingAsked"),
        ("{", words, "TG:ErrFilterNothingAsked"),
        ('{"id": "x"}', words, "TG:ErrRowInvalid"),
        ('{"id": 1}', ("--table", "shop.orders"), "TG:ErrFilterNothingAsked"),
    ):
        with pytest.raises(InvalidError) as e:
            explain(*more, "--row", row)
        assert e.value.code == code
        assert e.value.hint


@pytest.mark.usefixtures("folder")
def test_for_people() -> None:
    words = ["explain", "--config", "feed.toml", "--table", "log.secret"]
    found = CliRunner().invoke(app, words).output
    assert "log.secret: left out" in found
    assert "more.rules:4" in found


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ('"!shop.tmp_*"', '"!shop"', "TG:ErrFilterRuleInvalid", "feed.toml:6"),
        ('["delete"]', '["deletes"]', "TG:ErrInvalidIgnoreEventType", "feed.toml:10"),
        ('"^drop"', '"("', "TG:ErrIgnoreSQLInvalid", "feed.toml:11"),
        ('"{schema}_x"', '"{db}"', "TG:ErrTopicExpressionInvalid", "feed.toml:15"),
        ('"index-value"', '"by-index"', "TG:ErrDispatcherInvalid", "feed.toml:13"),
        ('columns = ["*", "!note"]', "column = 3", "TG:ErrDispatcherInvalid", "feed.toml:17"),
        ("ignore-sql", "ignore-sqls", "TG:ErrConfigUnknownKey", "feed.toml:11"),
        ("case-sensitive = false", "case-sensitive = 3", "TG:ErrConfigInvalid", "feed.toml:1"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    folder: Path, old: str, new: str, code: str, line: str
) -> None:
    (folder / "feed.toml").write_text(CONFIG.replace(old, new))
    with pytest.raises(InvalidError) as e:
        explain("--table", "shop.orders")
    assert (e.value.code, e.value.position) == (code, line)
    assert e.value.hint


def test_a_wrong_rule_in_another_file(folder: Path) -> None:
    (folder / "more.rules").write_text("log.*\nlog\n")
    with pytest.raises(InvalidError) as e:
        explain("--table", "shop.orders")
    assert (e.value.code, e.value.position) == ("TG:ErrFilterRuleInvalid", "more.rules:2")


@pytest.mark.parametrize("rules", ["@other", "  @ other"])
def test_a_file_of_rules_names_no_other(folder: Path, rules: str) -> None:
    (folder / "more.rules").write_text(rules)
    with pytest.raises(InvalidError) as e:
        read_config(Path("feed.toml"))
    assert (e.value.code, e.value.object) == ("TG:ErrConfigFileInvalid", "more.rules:1")


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "more.rules").unlink()
    with pytest.raises(InvalidError) as e:
        read_config(Path("feed.toml"))
    assert e.value.object == "more.rules"
    for name, text in (("none.toml", None), ("broken.toml", "a = [1,")):
        if text is not None:
            (folder / name).write_text(text)
        with pytest.raises(InvalidError) as e:
            read_config(Path(name))
        assert (e.value.code, e.value.object) == ("TG:ErrConfigFileInvalid", name)
        assert e.value.hint


@pytest.mark.usefixtures("folder")
def test_nothing_asked_and_no_name() -> None:
    for words, code in (
        ((), "TG:ErrFilterNothingAsked"),
        (("--table", "orders"), "TG:ErrTableNameInvalid"),
        (("--table", "`a.b"), "TG:ErrTableNameInvalid"),
    ):
        with pytest.raises(InvalidError) as e:
            explain(*words)
        assert e.value.code == code
        assert e.value.hint
