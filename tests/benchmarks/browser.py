"""The system's Chromium, driven by Playwright, and pages opened in it from disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def chromium_path() -> str | None:
    """Path of the browser; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def wait_until(page: Page, expression: str, timeout_s: float = 180.0) -> None:
    """Wait until an expression holds in the page. (Playwright's own waiting needs eval, which our pages forbid.)"""
    until = time.monotonic() + timeout_s
    while not page.evaluate(expression):
        if time.monotonic() > until:
            raise TimeoutError(expression)
        page.wait_for_timeout(20)


class Tab:
    """A page opened from disk, with the requests it made and the messages it logged."""

    def __init__(self, context: Any, file: Path) -> None:
        self.page = context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(file.as_uri())
        self.wait("Boolean(window.study || window.theme || window.replay?.frames)")

    def js(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def wait(self, expression: str) -> None:
        wait_until(self.page, expression)

    def settle(self) -> None:
        """Wait until pending changes are drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.settle()

    @property
    def time_s(self) -> float:
        return float(self.js("replay.player.time"))

    def is_clean(self) -> bool:
        """Assert that nothing was loaded but the file itself and that nothing was logged."""
        assert self.complaints == []
        assert len(self.requests) == 1
        return True


OpenTab = Callable[..., Tab]
