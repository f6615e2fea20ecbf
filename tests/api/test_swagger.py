"""The API's description for people: Swagger UI in a real Chromium, without any other host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from cdc.api.swagger import serving
from tests.api.browser import Console, running
from tests.api.server_process import CdcServer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as found:
        yield found


@pytest.fixture
def tab(server: CdcServer, browser: Browser) -> Iterator[Console]:
    """A tab in which nothing may go wrong."""
    made = Console(browser, server.url)
    try:
        yield made
        assert made.complaints() == []
        assert [a for a in made.asked if f" {server.url}/" not in a] == []
    finally:
        made.close()


def test_it_shows_the_api_and_sends_requests_with_the_token_of_the_tab(
    server: CdcServer, tab: Console
) -> None:
    page = tab.page
    page.goto(f"{server.url}{serving.PATH}")
    expect(page.get_by_label("Token")).to_be_visible()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Show the API").click()
    expect(page.get_by_role("alert")).to_contain_text("token is wrong")
    page.get_by_label("Token").fill(server.token)
    page.get_by_role("button", name="Show the API").click()
    expect(page.locator(".opblock")).not_to_have_count(0)
    expect(page.get_by_role("heading", name="Tidegate")).to_be_visible()
    operation = page.locator(".opblock", has_text="/api/v2/status").first
    operation.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    live = operation.locator(".live-responses-table").first
    expect(live).to_contain_text("200")
    expect(live).to_contain_text('"is_owner": true')
    # What is typed once holds for the console of the tab too, and the other way round.
    page.goto(f"{server.url}/#/changefeeds")
    expect(page.get_by_text("admin")).to_be_visible()


def test_its_files_need_no_token_and_tell_nothing(server: CdcServer) -> None:
    for path in serving.PATHS:
        answer = server.send("GET", path, "")
        assert answer.status_code == 200, path
        assert answer.headers["Content-Security-Policy"] == serving.POLICY
        assert server.token not in answer.text
        assert server.send("POST", path, "").status_code == 401
    assert "script-src 'self';" in serving.POLICY
    assert server.send("GET", "/api/v2/openapi.json", "").status_code == 401
    for path in ("docs/none", "docs/..%2f..%2fapp.py", "docs/page%2fstart.js", "docs/__init__.py"):
        assert server.send("GET", f"/api/v2/{path}").status_code == 404
