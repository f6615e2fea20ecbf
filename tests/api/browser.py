"""A real Chromium at the console, and what it has to complain about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import servers
from tests.servers import chromium, install
from tests.waiting import PATIENCE

SIZE = {"width": 1280, "height": 800}
_FLAGS = ["--disable-gpu", "--disable-dev-shm-usage"]
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (e) =>
  window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
"""

expect.set_options(timeout=20_000 * PATIENCE)


@contextmanager
def running() -> Iterator[Browser]:
    """The catalogue's browser; where it cannot be had the test is skipped, but fails in CI.

    Not for longer than a module: while it runs, its thread has a loop of asyncio.
    """
    try:
        base = install.fetch("chromium").base
    except servers.Unavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.command(base),
            env=dict(chromium.environment(base)),
            args=_FLAGS,
            chromium_sandbox=False,
        )
        try:
            yield browser
        finally:
            browser.close()


class Console:
    """One tab of its own, with all that went wrong in it."""

    def __init__(self, browser: Browser, url: str, **how: Any) -> None:
        self.context = browser.new_context(viewport=SIZE, **how)
        self.context.add_init_script(_WATCH)
        self.url = url
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.refused: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", lambda r: self.asked.append(f"{r.method} {r.url}"))
        self.page.on("response", self._response)

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.refused.append(f"{response.status} {response.request.method} {response.url}")

    def open(self, token: str, view: str = "changefeeds") -> Page:
        """Come with a token in the address, as ``cdc cli console`` has it."""
        self.page.goto(f"{self.url}/#token={token}")
        self.page.goto(f"{self.url}/#/{view}")
        return self.page

    def row(self, name: str) -> Any:
        """The row of a table that is about this."""
        return self.page.locator(f"tr[data-key='{name}']")

    def click(self, where: Any, label: str) -> None:
        """Press a button."""
        where.get_by_role("button", name=label, exact=True).click()

    def answer(self, label: str, reason: str = "") -> None:
        """Answer the question that is asked."""
        dialog = self.page.get_by_role("dialog")
        if reason:
            dialog.get_by_role("textbox").fill(reason)
        self.click(dialog, label)

    def complaints(self) -> list[str]:
        """Errors of scripts and violations of the policy, none if all is well."""
        violations: list[str] = self.page.evaluate("window.violations")
        return self.errors + violations

    def close(self) -> None:
        """Close the tab."""
        self.context.close()
