"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import OpenTab, Tab, chromium, chromium_path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="Playwright is not installed")
    if chromium_path() is None:
        pytest.skip("no Chromium on the PATH")
    with chromium() as found:
        yield found


@pytest.fixture
def open_tab(browser: Any) -> Iterator[OpenTab]:
    """open_tab(file, width=…, height=…, **options of the browser's context)."""
    contexts = []

    def open_one(file: Path, width: int = 1280, height: int = 800, **options: Any) -> Tab:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        return Tab(contexts[-1], file)

    yield open_one
    for context in contexts:
        context.close()
