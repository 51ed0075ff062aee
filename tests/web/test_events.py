"""How long a page waits for what was captured, on a clock that only the waiting moves: a busy machine changes nothing.

The time that the work itself takes is a figure of `python -m bench web_live`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from cortext.services.library import typed_search
from cortext.web import library as web
from cortext.web import live
from cortext.web.library import PageLibrary, store_key
from cortext.wiring.stores import Stores
from tests.faces.test_watch import watching
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import cortext

pytestmark = pytest.mark.req("PAGE-01")

PROMISED = 2.0  # seconds from the capture of a message to the page
LEFT = 1.0  # of them, for the work: reading, sending, drawing

Capture = Callable[[str], object]


class Clock:
    """A clock that stands still while something works."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (web, live, typed_search):
        monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(live, "asyncio", made)
    return made


@pytest.fixture
def talk(tmp_path: Path, home: Path) -> ClaudeTalk:
    project = tmp_path / "pond"
    project.mkdir()
    made = ClaudeTalk(project, real_time=True)
    made.say("How many herons are there?", "Seventeen.")
    return made


@contextmanager
def _hooks(talk: ClaudeTalk) -> Iterator[Capture]:
    yield talk.answer


@contextmanager
def _watch(talk: ClaudeTalk) -> Iterator[Capture]:
    with watching(talk.project) as watcher:
        while not cortext("watch", "--status", "--json", cwd=talk.project).json["running"]:
            assert watcher.process.poll() is None

        def capture(text: str) -> None:
            talk.write("", text)
            watcher.messages(1)

        yield capture


def _request(library: PageLibrary, path: dict[str, str]) -> Request:
    """Return the request of a page that stays open."""
    state = SimpleNamespace(library=library, following=set(), stopping=asyncio.Event())
    scope = {
        "type": "http",
        "app": SimpleNamespace(state=state),
        "path_params": path,
        "query_string": b"",
        "headers": [],
    }
    return Request(scope, asyncio.Event().wait)  # type: ignore[arg-type]  # a client that says nothing more


async def _events(library: PageLibrary, path: dict[str, str]) -> AsyncIterator[str]:
    answer = await (live.follow if path else live.follow_list)(_request(library, path))
    assert isinstance(answer, StreamingResponse)
    async for line in answer.body_iterator:
        assert isinstance(line, str)
        yield line


@pytest.mark.parametrize("capturing", [_hooks, _watch], ids=["hook", "watch"])
def test_what_is_captured_is_announced_at_the_next_look(
    talk: ClaudeTalk, clock: Clock, capturing: Callable[[ClaudeTalk], AbstractContextManager[Capture]]
) -> None:
    """To the conversation and to the list; without the comparison of all files, which is seldom."""
    (row,) = cortext("list", "--json", cwd=talk.project).json
    store = store_key(Stores(str(talk.project)).location("home").root)
    library = PageLibrary(lambda: None, str(talk.project))
    library._sweep_due = math.inf

    async def waited(path: dict[str, str], capture: Capture) -> list[float]:
        events = _events(library, path)
        assert await anext(events) == "retry: 2000\n\n"
        found = []
        for number in range(3):
            capture(f"Answer {number} of {path}.")  # just after a look: the worst moment
            began = clock.now
            assert (await anext(events)).startswith("event: changed\n")
            found.append(clock.now - began)
        return found

    try:
        with capturing(talk) as capture:
            for path in ({}, {"store": store, "session": row["id"]}):
                took = asyncio.run(waited(path, capture))
                assert took == pytest.approx([live.EVERY] * 3)
    finally:
        library.close()
    assert live.EVERY <= PROMISED - LEFT
