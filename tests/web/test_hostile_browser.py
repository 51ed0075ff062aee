"""Stored text that tries to be active, in a real browser: in the activity page and in every kind of exported file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cortext.faces.html.document import document
from cortext.faces.html.sealed import sealed
from cortext.faces.html.site import Entry, first_page
from cortext.model.message import TOOL_CALL, Message, Part
from cortext.model.session import Origin, Session
from cortext.store.files.workspace import WorkspaceStore
from tests.faces.pond import make_pond
from tests.support import chromium
from tests.web.served import serving
from tests.web.test_browser import PATIENCE
from tests.web.test_rendering import INJECTIONS, everywhere
from tests.web.used import answered, day

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page

pytestmark = [
    pytest.mark.req("PAGE-01", "PAGE-02"),
    pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium"),
]

# What only an injection could have made: our pages have one script each, and none of the others.
STRANGE = """() => [...document.querySelectorAll('iframe, object, embed, base, img, link[rel=stylesheet][href^=http], '
    + 'main style, main script:not([type]), main meta, svg[onload], [onerror], [onmouseover], a[href^="javascript" i]')]
    .filter(e => !(e.tagName === 'SCRIPT' && e.parentNode.matches('.sealed'))).map(e => e.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        running = play.chromium.launch(
            executable_path=chromium.ensure(), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@contextmanager
def watched(browser: Browser, allowed: str, scheme: str = "light") -> Iterator[Page]:
    """Open a window in which nothing may be asked, said or loaded, except below one address."""
    context: BrowserContext = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    wrong: list[str] = []

    def refuse(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(allowed) else None)
    try:
        page = context.new_page()
        page.on("dialog", refuse)
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        yield page
        assert wrong == []
    finally:
        context.close()


def _conversation(number: int, text: str) -> tuple[Session, list[Message]]:
    messages = everywhere(text)
    session = Session(id=f"{number:03}-plan", title=text, summary=text, type=text, origin=Origin(tool=text))
    return session, [*messages, Message(role="user", content=text, seq=9)]


def test_exported_files_run_nothing_that_was_stored(browser: Browser, tmp_path: Path) -> None:
    entries = []
    for number, text in enumerate(INJECTIONS.values()):
        session, messages = _conversation(number, text)
        entry = Entry(session, f"{number}.html")
        page_of = document(session, entry.noting(messages))
        (tmp_path / f"{number}.html").write_bytes(page_of.encode("utf-8", "replace"))
        entries.append(entry)
    (tmp_path / "index.html").write_bytes(first_page(entries).encode("utf-8", "replace"))
    everything = [
        message for number, text in enumerate(INJECTIONS.values()) for message in _conversation(number, text)[1]
    ]
    whole = document(Session(id="all", title="".join(INJECTIONS.values())), everything)
    (tmp_path / "sealed.html").write_bytes(sealed(whole, "seventeen herons").encode("utf-8", "replace"))
    with watched(browser, f"file://{tmp_path}/") as page:
        for number in range(len(entries)):
            page.goto(f"file://{tmp_path}/{number}.html")
            assert page.evaluate(STRANGE) == [] and page.locator("footer").count() == 1
        page.goto(f"file://{tmp_path}/index.html")
        page.locator("#q").fill("script")
        assert page.evaluate(STRANGE) == [] and page.locator("#list > li:not([hidden])").count() > 5
        page.goto(f"file://{tmp_path}/sealed.html")
        page.locator("#passphrase").fill("seventeen herons")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("footer")
        assert page.evaluate(STRANGE) == []


def test_the_activity_page_runs_nothing_that_was_stored(browser: Browser, tmp_path: Path) -> None:
    pond = make_pond(tmp_path)
    store = WorkspaceStore(str(pond.folder))
    for number, text in enumerate(INJECTIONS.values()):
        name = f"{number + 10:03}-plan-hostile"
        store.create(Session(id=name, title=text, type="plan", summary=text, origin=Origin(tool="claude")))
        used = Part(TOOL_CALL, id="e", name="Edit", input={"file_path": " ".join(text.split())})
        store.append(name, Message(role="user", content=text, timestamp=f"{day(1)}T08:00:00.000Z"))
        store.append(name, answered(1, text, 2_000, used), answered(1, "claude-opus-4-5", 100_000 + number))
    with serving(pond.env, pond.folder) as served, watched(browser, f"http://{served.host}/") as page:
        page.goto(served.address)
        page.goto(f"http://{served.host}/see?by=tokens")
        page.wait_for_selector("#costs svg.chart")
        assert page.evaluate(STRANGE) == []
        shown = page.locator("main").inner_text()
        assert "<script>alert(1)</script>" in shown and "{{ 7*7 }}" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_exported_files_break_no_rule_of_accessibility(browser: Browser, tmp_path: Path, scheme: str) -> None:
    session, messages = Session(id="x", title="Herons", summary="All of it.", type="plan"), everywhere("a `heron`")
    messages += [Message(role="user", content="```python\nx = 1  # why\n```\n\n[masked anthropic-key 3f2a9c]", seq=20)]
    entry = Entry(session, "page.html")
    files = {
        "page": document(session, entry.noting(messages)),
        "index": first_page([entry]),
        "sealed": sealed("x", "y" * 8),
    }
    broken = []
    with watched(browser, f"file://{tmp_path}/", scheme) as page:
        for name, text in files.items():
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
            page.goto(f"file://{tmp_path}/{name}.html")
            for fold in page.locator("details > summary").all():
                fold.click()
            page.evaluate(chromium.axe().read_text("utf-8"))
            rules = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
            found = page.evaluate(rules)["violations"]
            broken += [f"{name}: {rule['id']}: {rule['nodes'][0]['failureSummary']}" for rule in found]
    assert broken == []
