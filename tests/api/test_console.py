"""The console in a real Chromium, at a real capture with a real upstream and a real broker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import servers
from tests.api.browser import Console, running
from tests.api.server_process import CdcServer, run_cdc
from tests.waiting import until

PASSWORD = "c0nsole-s3cret"
HOSTILE = "<img src=x onerror=alert(1)>"


@dataclass
class Stage:
    """A capture with one changefeed, ``feed``, whose schema changes all wait for a person."""

    server: CdcServer
    database: servers.Database
    browser: Browser
    schema: str
    feed: str = "console"

    def info(self) -> Any:
        return self.server.api("GET", f"/changefeeds/{self.feed}").json()

    def ddls(self) -> list[Any]:
        path = f"/changefeeds/{self.feed}/ddls?state=all"
        return list(self.server.api("GET", path).json()["items"])

    def token(self, role: str) -> str:
        body = {"name": f"console-{role}-{time.monotonic_ns()}", "role": role}
        return str(self.server.api("POST", "/tokens", body).json()["token"])

    def picture(self, page: Page, name: str) -> None:
        """A picture for the docs, where one asks for them; some answers make the plot a line."""
        if folder := os.environ.get("PICTURES"):
            time.sleep(30)
            Path(folder).mkdir(exist_ok=True)
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    def execute(self, *statements: str) -> None:
        self.database.execute(*statements, database=self.schema)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as found:
        yield found


@pytest.fixture(scope="module")
def stage(
    server: CdcServer, mariadb: servers.Database, broker: servers.Broker, browser: Browser
) -> Stage:
    made = Stage(server, mariadb, browser, "console")
    mariadb.execute(
        "CREATE DATABASE console",
        f"CREATE USER console IDENTIFIED BY '{PASSWORD}'",
        "GRANT ALL ON *.* TO console",
    )
    made.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO a VALUES (1, 'x')"
    )
    uri = f"mysql://console:{PASSWORD}@127.0.0.1:{mariadb.port}"
    server.cli_json("upstream", "create", "-u", "console", "--uri", uri)
    body = {
        "changefeed_id": made.feed,
        "upstream": "console",
        "sink_uri": f"kafka://{broker.bootstrap}/console?protocol=canal-json",
        "replica_config": {
            "filter": {"rules": ["console.*"]},
            "ddl_policy": "hold-all",
            "snapshot": {"mode": "initial"},
        },
    }
    answer = server.api("POST", "/changefeeds", body)
    assert answer.is_success, answer.text
    return made


@pytest.fixture
def tab(stage: Stage) -> Iterator[Console]:
    """A tab in which nothing may go wrong."""
    made = Console(stage.browser, stage.server.url)
    try:
        yield made
        assert made.complaints() == []
        # Whatever was done, the page has asked nobody else.
        assert [a for a in made.asked if f" {stage.server.url}/" not in a] == []
    finally:
        made.close()


def test_a_token_opens_it_and_stays_in_the_tab(stage: Stage, tab: Console) -> None:
    page = tab.page
    page.goto(stage.server.url)
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("wrong, revoked or expired")
    token = stage.token("viewer")
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(tab.row(stage.feed)).to_contain_text("normal")
    expect(page.locator("#who")).to_contain_text("viewer")
    assert token not in page.content()
    assert token not in page.url
    assert page.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0
    page.reload()
    expect(tab.row(stage.feed)).to_contain_text("normal")
    page.get_by_role("button", name="Forget the token").click()
    expect(page.get_by_label("Token")).to_be_focused()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()

    page.goto(f"{stage.server.url}/#token={token}")
    expect(tab.row(stage.feed)).to_contain_text("normal")
    assert token not in page.url
    page.go_back()
    assert token not in page.url


def test_all_views_are_read_by_who_may_only_look(stage: Stage, tab: Console) -> None:
    page = tab.open(stage.token("viewer"))
    expect(tab.row(stage.feed)).to_contain_text("normal")
    # By the keyboard alone: a link of the head, then the changefeed's.
    page.get_by_role("link", name="Upstreams").focus()
    page.keyboard.press("Enter")
    row = tab.row("console")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("mariadb")
    page.get_by_role("link", name="Captures").click()
    status = stage.server.api("GET", "/status").json()
    expect(tab.row(status["id"])).to_contain_text("owner")
    expect(tab.row(status["id"])).to_contain_text(stage.feed)
    page.get_by_role("link", name="Errors").click()
    expect(page.get_by_role("table", name="Errors")).to_be_visible()
    page.get_by_role("link", name="Changefeeds").click()
    tab.row(stage.feed).get_by_role("link").press("Enter")
    expect(page.locator("main h2")).to_have_text(stage.feed)
    expect(page.get_by_role("img", name="Lag: now")).to_be_visible()
    assert page.locator("main button:not([data-do=page])").count() == 0
    assert PASSWORD not in page.content()
    assert tab.refused == []


def test_what_an_operator_does_is_done(stage: Stage, tab: Console) -> None:
    page = tab.open(stage.token("operator"))
    row = tab.row(stage.feed)
    tab.click(row, "Pause")
    expect(row).to_contain_text("stopped")
    assert stage.info()["state"] == "stopped"
    tab.click(row, "Resume")
    expect(row).to_contain_text("normal")
    assert stage.info()["state"] == "normal"

    row.get_by_role("link").click()
    stage.execute(
        "ALTER TABLE a ADD COLUMN w INT",
        f"ALTER TABLE a COMMENT '{HOSTILE}'",
        "INSERT INTO a VALUES (2, 'y', 3)",
    )
    first, second = until(lambda: len(d := stage.ddls()) == 2 and d, "both changes are seen")
    assert [d["state"] for d in (first, second)] == ["held", "held"]
    held, skipped = (page.locator(f"li[data-key='{d['ts']}']") for d in (first, second))
    expect(page.locator("tr[data-key='console.a']")).to_contain_text("waiting")
    expect(skipped.locator("pre")).to_contain_text(HOSTILE)
    assert page.locator("main img[src]").count() == 0
    stage.picture(page, "console-changefeed")

    tab.click(held, "Approve…")
    tab.answer("Cancel")
    assert stage.ddls()[0]["state"] == "held"
    tab.click(held, "Approve…")
    tab.answer("Approve", reason="agreed")
    expect(held).to_contain_text("done")
    tab.click(skipped, "Skip…")
    tab.answer("Skip", reason="not here")
    expect(skipped).to_contain_text("skipped")
    ended = {d["ts"]: d["state"] for d in stage.ddls()}
    assert ended == {first["ts"]: "done", second["ts"]: "skipped"}
    log = stage.server.log.read_text()
    assert f"operator: approve schema change {first['ts']} agreed" in log
    assert f"operator: skip schema change {second['ts']} not here" in log
    expect(page.locator("tr[data-key='console.a']")).to_have_count(0)
    page.get_by_label("Show").first.select_option("all")
    expect(page.locator("tr[data-key='console.a']")).to_contain_text("delivering")
    page.get_by_label("Name contains").fill("nothing")
    expect(page.locator("tr[data-key='console.a']")).to_have_count(0)


def test_a_comparison_shows_what_differs(stage: Stage, tab: Console) -> None:
    page = tab.open(stage.token("operator"), f"changefeeds/{stage.feed}")
    section = page.locator("section[data-key=verification]")
    tab.click(section, "Compare")
    expect(section.locator("[data-key=verdict]")).to_contain_text("equal")
    stage.execute("SET sql_log_bin = 0", "UPDATE a SET v = 'z' WHERE id = 1", "SET sql_log_bin = 1")
    section.get_by_label("Tables").fill("console.a")
    tab.click(section, "Compare")
    expect(section.locator("[data-key=verdict]")).to_contain_text("different")
    expect(section).to_contain_text("(id='1') differs; v: upstream 'z', target 'x'")
    assert tab.refused == []


def test_refusals_are_said_with_their_hint(stage: Stage, tab: Console) -> None:
    page = tab.open(stage.server.token, "captures")
    capture = stage.server.api("GET", "/status").json()["id"]
    for label in ("Drain", "Resign"):
        tab.click(tab.row(capture), f"{label}…")
        tab.answer(label)
        said = page.get_by_role("alert")
        expect(said).to_contain_text("TG:ErrNoOtherCapture")
        expect(said).to_contain_text("Hint: ")
        said.get_by_role("button", name="Dismiss").click()
    assert not stage.server.api("GET", "/captures").json()["items"][0]["is_drained"]


def test_a_changefeed_is_removed_only_if_that_is_meant(stage: Stage, tab: Console) -> None:
    body = {"changefeed_id": "gone", "upstream": "console", "sink_uri": "blackhole://"}
    # The server has what other tests have left, too.
    body |= {"replica_config": {"filter": {"rules": [f"{stage.schema}.*"]}}}
    answer = stage.server.api("POST", "/changefeeds", body)
    assert answer.is_success, answer.text
    page = tab.open(stage.token("operator"))
    stage.picture(page, "console")
    tab.click(tab.row("gone"), "Remove…")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stage.server.api("GET", "/changefeeds/gone").is_success
    tab.click(tab.row("gone"), "Remove…")
    tab.answer("Remove")
    expect(tab.row("gone")).to_have_count(0)
    assert stage.server.api("GET", "/changefeeds/gone").status_code == 404


def test_the_policy_keeps_out_what_a_statement_would_do(stage: Stage) -> None:
    """The control of ``complaints``: each of these would be wrong, and each is noticed."""
    tab = Console(stage.browser, stage.server.url)
    try:
        page = tab.open(stage.token("viewer"))
        expect(tab.row(stage.feed)).to_be_visible()
        as_markup = f"try {{ document.body.innerHTML = {HOSTILE!r} }} catch (e) {{ String(e) }}"
        assert "TrustedHTML" in page.evaluate(as_markup)
        assert page.evaluate("fetch('http://127.0.0.1:9/').catch(String)").startswith("TypeError")
        kinds = {c.split()[0] for c in tab.complaints()}
        assert kinds == {"require-trusted-types-for", "connect-src"}
    finally:
        tab.close()


def test_the_command_line_prints_the_address_with_the_token(stage: Stage, tab: Console) -> None:
    done = stage.server.cli("console")
    assert done.stdout == f"{stage.server.url}/#token={stage.server.token}\n"
    tab.page.goto(done.stdout.strip())
    expect(tab.page.locator("#who")).to_contain_text("(data directory), admin")
    done = run_cdc("cli", "console", "--server", "http://127.0.0.1:9")
    assert "TG:ErrServerUnreachable" in done.stderr
