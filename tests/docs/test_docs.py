"""Pages say what the program does: codes, options, commands, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from cdc.cli.main import app
from cdc.verify.formats import TOPIC_FORMS
from sink.binlog.settings import BinlogSettings
from sink.codec.protocols import FORMATS
from sink.kafka.settings import KafkaSettings
from sink.mysql.settings import MysqlSettings
from tests.docs.error_table import BEGIN, END, PAGE, classes, table

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_table_of_codes_is_that_of_the_classes() -> None:
    shown = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert shown == table().strip(), "python -m tests.docs.error_table writes it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_codes_in_a_page_exist(page: Path) -> None:
    known = {c.code for c in classes()}
    named = set(re.findall(r"TG:Err\w+", page.read_text())) - {"TG:ErrX", "TG:ErrXxx"}
    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_every_option_of_the_sink_is_described() -> None:
    text = (ROOT / "docs/messages.md").read_text()
    options = {str(f.alias) for f in KafkaSettings.model_fields.values()} - {"servers", "topic"}
    assert {o for o in options if f"`{o}`" not in text and f"{o}=" not in text} <= {"dispatchers"}


def test_every_protocol_is_described_as_it_is() -> None:
    text = (ROOT / "docs/messages.md").read_text()
    for protocol, form in FORMATS.items():
        found = re.search(rf"^\| `{protocol}` \|(.*)\|$", text, re.M)
        assert found, protocol
        shown = [cell.strip() for cell in found[1].split("|")]
        assert (shown[0] != "none") == form.keys
        assert (shown[1] != "none") == bool("enable-tidb-extension" in form.options)
        assert (shown[2] == "yes") == (protocol in TOPIC_FORMS)
        assert ("among" not in shown[3]) == form.changes_apart
        assert f"## {protocol}\n" in text


def test_every_option_of_the_database_sink_is_described() -> None:
    text = (ROOT / "docs/mysql.md").read_text()
    options = {str(f.alias) for f in MysqlSettings.model_fields.values()}
    assert {o for o in options if f"`{o}`" not in text} <= {"host", "port", "user", "password"}


def test_every_option_of_the_binlog_sink_is_described() -> None:
    text = (ROOT / "docs/binlog-sink.md").read_text()
    options = {str(f.alias) for f in BinlogSettings.model_fields.values()} - {"folder"}
    assert not {o for o in options if f"| `{o}` |" not in text}


def test_every_command_is_described() -> None:
    text = (ROOT / "docs/operate.md").read_text()
    cli = typer.main.get_command(app).commands["cli"]  # type: ignore[attr-defined]
    for group, found in cli.commands.items():
        if not hasattr(found, "commands"):
            assert f"cdc cli {group}" in text, group
            continue
        for verb in found.commands:
            assert re.search(rf"cdc cli {group}[^\n]*\b{verb}\b", text), f"{group} {verb}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_in_a_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`make ([a-z-]+)", page.read_text()))
    assert named <= targets
