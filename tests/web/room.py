"""A browser with the key of the page, which notes everything that must not happen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support import chromium
from tests.web.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request

PATIENCE = 60_000  # milliseconds: the machine may be busy
ONLY_HERE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


class Room:
    """The browser with the key of the page; it notes everything that must not happen."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self.browser, self.served = browser, served
        self.base = f"http://{served.host}"
        self.wrong: list[str] = []
        with self.page(key=False) as page:
            page.goto(served.address)
            page.wait_for_url(f"{self.base}/")
            self.key: Any = page.context.storage_state()

    @contextmanager
    def page(self, *, key: bool = True, scheme: str = "light", size: dict[str, int] | None = None) -> Iterator[Page]:
        """Open a window; afterwards there must have been no error and no request to another host."""
        context = self.browser.new_context(
            storage_state=self.key if key else None,
            color_scheme=scheme,  # type: ignore[arg-type]
            viewport=size or {"width": 1280, "height": 860},  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE)
        self._watch(context)
        try:
            page = context.new_page()
            page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
            page.on("dialog", self._refuse)
            page.on("pageerror", lambda error: self.wrong.append(str(error)))
            yield page
            assert self.wrong == []
        finally:
            self.wrong = []
            context.close()

    def _refuse(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _watch(self, context: BrowserContext) -> None:
        def check(request: Request) -> None:
            if urlsplit(request.url).netloc != self.served.host:
                self.wrong.append(f"request to {request.url}")

        context.on("request", check)

    def open(self, page: Page, title: str) -> None:
        """Go to a conversation from the list."""
        page.goto(f"{self.base}/")
        page.get_by_role("link", name=title, exact=True).click()
        page.wait_for_selector("html[data-ready] #messages article")


@contextmanager
def browsing(served: Served) -> Iterator[Room]:
    """Start a browser and give it the key."""
    with started_browser() as browser:
        yield Room(browser, served)


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Start a browser that reaches nothing beyond this machine."""
    from playwright.sync_api import sync_playwright

    arguments = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--host-resolver-rules={ONLY_HERE}")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium.ensure(), args=arguments)
        yield browser
        browser.close()


def broken_rules(page: Page) -> list[str]:
    """Return which rules of accessibility the page breaks, and where."""
    page.evaluate(chromium.axe().read_text("utf-8"))
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)["violations"]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"][:3]]


def until(page: Page, condition: str) -> None:
    """Wait until an expression is true. Playwright's own waiting would need `eval`, which the page forbids."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(30)
