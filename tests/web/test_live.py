"""What a tool writes appears on open pages: through a real hook and a real `cortext watch`, with many conversations.

`test_events` has how long a page waits for that, `python -m bench web_live` how long it takes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores
from tests.faces.test_watch import watching
from tests.support import chromium
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import cortext
from tests.web.room import Room, browsing, until
from tests.web.served import Served, serving

pytestmark = [
    pytest.mark.req("PAGE-01", "LOOK-05"),
    pytest.mark.skipif(chromium.program() is None, reason="no Chromium here: python -m tests.support.chromium"),
]

MANY = 500  # conversations
TIMES = 3
# Notes what the page asks for, and whether it does so at once when the server announces something.
NOTING = """
window.asked = [];
let announced = false;
window.EventSource = class extends EventSource {
  addEventListener(name, then) {
    super.addEventListener(name, (event) => { announced = true; try { then(event); } finally { announced = false; } });
  }
};
const ask = window.fetch;
window.fetch = (address, ...more) => { window.asked.push([String(address), announced]); return ask(address, ...more); };
"""
LAST = "What do the herons eat in winter?"


@pytest.fixture
def talk(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> ClaudeTalk:
    """Return a conversation in Claude Code, captured by its hooks, beside many others in the home store."""
    project = tmp_path / "pond"
    project.mkdir()
    talk = ClaudeTalk(project, real_time=True)
    talk.say("How many herons are there?", "Seventeen.")
    store = WorkspaceStore(Stores(str(project)).location("home").root)
    with mock.patch("cortext.io.durable.Calls.fsync", staticmethod(lambda _: None)):
        for number in range(request.param):
            at = f"2025-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00.000Z"
            name = f"{number:04}-plan-topic"
            store.create(Session(id=name, type="plan", title=f"Topic {number}", created_at=at))
            store.append(name, Message(role="user", content=f"About topic {number}", timestamp=at))
    return talk


@pytest.fixture
def served(talk: ClaudeTalk) -> Iterator[Served]:
    with serving(os.environ, talk.project) as running:
        yield running


@pytest.fixture
def room(served: Served) -> Iterator[Room]:
    with browsing(served) as made:
        yield made


def _processor(process: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("talk", [MANY], indirect=True)
def test_what_is_captured_appears_on_open_pages(room: Room, served: Served, talk: ClaudeTalk) -> None:
    """In the conversation and in the list, which has thousands of others; from a hook and a watch.

    Without a reload, and without asking from time to time: a page asks when something is announced to it, and at once.
    """
    with room.page() as reader, room.page() as home:
        for page in (reader, home):
            page.add_init_script(NOTING)
        home.goto(f"{room.base}/")
        home.wait_for_selector("html[data-ready]")
        assert f"{MANY + 1:,} conversations" in home.locator(".count").inner_text()
        room.open(reader, "How many herons are there?")
        for page in (reader, home):
            page.evaluate("window.stays = true")

        said = 2

        def by_hook(text: str) -> None:
            nonlocal said
            talk.prompt(f"Question {said}?")
            talk.answer(text)
            said += 2

        def by_watch(text: str) -> None:
            nonlocal said
            talk.write("", text)
            watcher.messages(1)
            said += 1

        def appears(capture: Callable[[str], None]) -> None:
            for number in range(TIMES):
                text = f"{capture.__name__} {number}."
                capture(text)
                reader.wait_for_selector(f"text={text}")
                home.wait_for_selector(f".card:first-child .facts :text-is('{said} messages')")

        appears(by_hook)
        with watching(talk.project) as watcher:
            while not cortext("watch", "--status", "--json", cwd=talk.project).json["running"]:
                assert watcher.process.poll() is None
            appears(by_watch)
            assert watcher.end(signal.SIGTERM) == 0
        assert reader.locator("[data-count]").inner_text() == f"{said} messages"
        for page in (reader, home):
            assert page.evaluate("window.stays"), "it was loaded again"
        for page, path in ((reader, "/messages?"), (home, "/results?")):
            asked = [at_once for address, at_once in page.evaluate("window.asked") if path in address]
            assert len(asked) >= 2 * TIMES and all(asked), asked
        # Two open pages ask all the time: that must not mean that the files of all conversations are looked at.
        used, began = _processor(served.process), time.monotonic()
        reader.wait_for_timeout(4_000)
        share = (_processor(served.process) - used) / (time.monotonic() - began)
        assert share < 0.25, f"{share:.0%} of a processor while nothing happens"


@pytest.mark.parametrize("talk", [60], indirect=True)
def test_a_list_that_was_scrolled_catches_up_at_its_top(room: Room, talk: ClaudeTalk) -> None:
    """Nothing moves under a reader's eyes; but what came meanwhile is there when he returns."""
    with room.page() as page:
        page.goto(f"{room.base}/")
        page.wait_for_selector("html[data-ready]")
        page.evaluate("scrollTo(0, 1500)")
        talk.say(LAST, "Fish.")
        until(page, "document.querySelector('#results').dataset.old === ''")
        first = ".card:first-child .facts"
        assert "2 messages" in page.locator(first).inner_text()
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_selector(f"{first} :text-is('4 messages')")
