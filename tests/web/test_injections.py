"""Every class of injection in every field, on every page, in a real browser: nothing of it becomes active."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from cortext.model.message import ROLES, Message
from cortext.model.session import Origin, Session
from cortext.services.workspace.order import add_note
from cortext.store.files.workspace import WorkspaceStore
from cortext.web.library import store_key
from cortext.wiring.stores import Stores
from tests.faces.pond import Pond, make_pond
from tests.support import chromium
from tests.support.cli import cortext
from tests.web.injections import INJECTIONS, everywhere
from tests.web.room import PATIENCE, Room, browsing
from tests.web.served import CLAUDE, serving, with_program

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

pytestmark = [
    pytest.mark.req("PAGE-01"),
    pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium"),
]

# What a browser made of the page: elements and attributes that our templates never write.
ACTIVE = """() => [...document.querySelectorAll('*')].flatMap(each => {
    const tag = each.localName, wrong = [];
    const inside = name => new URL(each.getAttribute(name), location.href).origin === location.origin;
    if (['iframe', 'object', 'embed', 'base', 'math', 'img', 'frame', 'video'].includes(tag)) wrong.push(tag);
    if (tag === 'script' && location.protocol !== 'file:' && each.getAttribute('src') !== '/static/page.js') {
        wrong.push('script');
    }
    if (tag === 'meta' && each.httpEquiv && each.httpEquiv !== 'Content-Security-Policy') wrong.push('meta');
    if (tag === 'form' && each.hasAttribute('action') && !inside('action')) wrong.push('form');
    for (const {name, value} of each.attributes) {
        if (name.startsWith('on') || ['style', 'srcdoc', 'xlink:href'].includes(name)) wrong.push(`${tag}.${name}`);
        const plain = /^(https?:|mailto:|#|[/]|[?]|[\\w-]+[.]html)/.test(value);
        if (name === 'href' && !plain) wrong.push(`${tag}.href=${value}`);
    }
    return wrong;
})"""


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    made = make_pond(tmp_path_factory.mktemp("injections"))
    store = WorkspaceStore(str(made.folder))
    used = {"input_tokens": 1_000_000, "output_tokens": 10}
    for number, text in enumerate(INJECTIONS.values(), 100):
        name = f"{number}-debug-injection"
        store.create(Session(id=name, type="debug", title=text, summary=text, origin=Origin(tool=text)))
        messages = everywhere(text)
        for message in messages:
            message.timestamp = "2026-09-01T10:00:00.000Z"  # the store refuses another time or role
            message.role = message.role if message.role in ROLES else "assistant"
        messages[2].usage = used
        store.append(name, *messages, Message(role="user", content=f"kestrel {text} kestrel"))
        named_store = Stores(str(made.folder)).workspace_store()
        add_note(named_store, store.get(name), f"a note {text}")
    return made


@pytest.fixture(scope="module")
def room(pond: Pond) -> Iterator[Room]:
    with serving(with_program(pond, "claude", CLAUDE), pond.folder) as served, browsing(served) as made:
        yield made


def _open(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate(ACTIVE) == [], address
    assert page.locator("main").count() == 1 and page.locator("h1 h1, main main").count() == 0


def test_no_page_runs_what_was_stored(room: Room, pond: Pond) -> None:
    with room.page() as page:
        for path in ("/", "/?q=kestrel", "/see", "/see?by=tokens&days=365"):
            _open(page, f"{room.base}{path}")
        page.wait_for_selector("text=Most expensive")  # the costs have been loaded
        assert page.evaluate(ACTIVE) == []
        for number in range(100, 100 + len(INJECTIONS)):
            path = f"/c/{store_key(str(pond.folder))}/{number}-debug-injection"
            _open(page, f"{room.base}{path}?find=kestrel")
            assert page.locator("#messages article").count() >= 6
        _open(page, f"{room.base}{path}/continue")
        page.wait_for_selector(".receipt, .warning")
        assert page.evaluate(ACTIVE) == []


def test_no_page_runs_what_is_in_its_address(room: Room) -> None:
    with room.page() as page:
        # All four say the same way what is wrong with them: each class is given to one of them.
        refusing = cycle(("/?status={0}", "/?after={0}", "/?project={0}", "/c/{0}/{0}"))
        for text, other in zip(map(quote, INJECTIONS.values()), refusing, strict=False):
            _open(page, f"{room.base}/?q={text}")
            page.goto(f"{room.base}{other.format(text)}")
            assert page.evaluate(ACTIVE) == [], other
        # The browser reports that the server refused these addresses.
        room.wrong = [each for each in room.wrong if "responded with a status of 40" not in each]


@pytest.mark.req("PAGE-02")
def test_no_exported_file_runs_what_was_stored(room: Room, pond: Pond, tmp_path: Path) -> None:
    words = ("--format", "html", "--all", str(tmp_path / "site"))
    assert cortext("export", *words, cwd=pond.folder, env=pond.env).code == 0
    env = {**pond.env, "CORTEXT_EXPORT_PASSPHRASE": "seventeen herons"}
    sealed = cortext("export", "100", "--format", "html", "--encrypt", cwd=pond.folder, env=env)
    (tmp_path / "sealed.html").write_text(sealed.out, encoding="utf-8")
    context = room.browser.new_context()
    context.set_default_timeout(PATIENCE)
    wrong: list[str] = []

    def refuse(dialog: Dialog) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    context.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith("file://") else None)
    try:
        page = context.new_page()
        page.set_content('<iframe></iframe><p onclick="x"><a href="javascript:x">y</a>')
        assert len(page.evaluate(ACTIVE)) == 3  # it does see what must not be there
        page.on("console", lambda said: wrong.append(said.text))
        page.on("dialog", refuse)
        files = sorted((tmp_path / "site").glob("*.html"))
        assert len(files) > len(INJECTIONS)
        for file in files:
            page.goto(f"file://{file}")
            assert page.evaluate(ACTIVE) == [], file.name
        page.goto(f"file://{tmp_path}/sealed.html")
        page.locator("#passphrase").fill("seventeen herons")
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("text=kestrel")
        assert page.evaluate(ACTIVE) == []
    finally:
        context.close()
    assert wrong == []
