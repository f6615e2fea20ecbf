"""The console in a real Chromium, at a real capture with a real upstream and a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests import servers
from tests.api.browser import Console, running
from tests.api.server_process import CdcServer

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

    def execute(self, *statements: str) -> None:
        self.database.execute(*statements, database=self.schema)


def _until(look: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not in time: {what}")


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
    expect(page.locator("h2")).to_have_text(stage.feed)
    expect(page.get_by_role("img", name="Lag: now")).to_be_visible()
    assert page.locator("main button:not([data-do=page])").count() == 0
    assert PASSWORD not in page.content()
    assert tab.refused == []
