"""A headless Chromium for tests of the page: it records its requests and complaints, and reaches this machine only."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no command chromium: apt-get install chromium"
)


@dataclass
class Visit:
    """A page in the browser, the URLs that it requested, and what it complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def visiting(url: str, *, dark: bool = False) -> Iterator[Visit]:
    """Open a page in a browser of its own. Blocks: call it in a thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            context = browser.new_context(
                color_scheme="dark" if dark else "light", viewport={"width": 1280, "height": 1000}
            )
            context.set_default_timeout(60_000)
            page = context.new_page()
            visit = Visit(page)
            page.on("request", lambda request: visit.requests.append(request.url))
            page.on("pageerror", lambda error: visit.complaints.append(str(error)))
            page.on("console", lambda message: visit.complaints.append(f"{message.type}: {message.text}"))
            page.goto(url)
            yield visit
        finally:
            browser.close()


def keep_screenshot(visit: Visit, path: Path) -> None:
    """Save the whole page as an image."""
    visit.page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 10_000
