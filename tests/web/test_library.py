"""The services behind the page: which thread uses which database, and what is kept between requests."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from cortext.index import refresh
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.services.library.listing import Listing, Row
from cortext.services.library.served_sessions import ServedSessions
from cortext.services.library.typed_search import TypedAnswer
from cortext.store.files.chat import ChatStore
from cortext.web import library as web
from cortext.web.home import highlighted
from cortext.web.library import PageLibrary
from cortext.wiring.stores import Stores
from tests.faces.pond import SECRET

pytestmark = pytest.mark.req("PAGE-01")


PIECE = 8  # characters of a secret that must not be seen


@pytest.fixture
def store(tmp_path: Path, home: Path) -> ChatStore:
    return ChatStore(Stores(str(tmp_path)).location("chat").root)


@pytest.fixture
def library(tmp_path: Path, store: ChatStore) -> Iterator[PageLibrary]:
    for name in ("one", "two", "three"):
        store.create(Session(id=name, title=name.capitalize()))
        store.append(name, Message(role="user", content=f"the {name}"))
    made = PageLibrary(lambda: None, str(tmp_path))
    yield made
    made.close()


def test_only_the_list_thread_uses_the_list(library: PageLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a store is asked for by the event loop and by readers: two threads must not refresh one database."""
    used: set[str] = set()
    refresh = Listing.refresh

    def noted(listing: Listing, *, quick: bool = False) -> None:
        used.add(threading.current_thread().name)
        refresh(listing, quick=quick)

    monkeypatch.setattr(Listing, "refresh", noted)
    library._lister = library._finder(lambda: None, -1.0)
    library._sweep_due = math.inf

    async def asked() -> set[str]:
        found = await library.find(Query(limit=10))
        assert found is not None
        roots = [hit.session.root for hit in found.answer.hits]
        return {library.label(root) for root in roots} | {await library.in_reader(lambda: library.label(roots[0]))}

    assert asyncio.run(asked()) == {"alfred"}
    assert {name.partition("_")[0] for name in used} == {"list"}


def test_readers_share_the_windows_of_conversations(library: PageLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reader evicts what the others are about to use: no request may fail by that."""
    monkeypatch.setattr(web, "KEPT", 1)
    monkeypatch.setattr(web, "Windows", lambda listing, row, leaf: row.id)  # reading would take most of the time
    rows = asyncio.run(library.rows())

    def read(start: int) -> None:
        for number in range(start, start + 20_000):
            row = rows[number // 2 % 3]
            assert str(library.windows(row)) == row.id

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as readers:
            for done in [readers.submit(read, start) for start in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(before)
    assert len(library._windows) == 1


@pytest.mark.req("SAFE-09")
def test_a_secret_that_is_cut_in_two_is_masked_all_the_same(library: PageLibrary, store: ChatStore) -> None:
    """Wherever an excerpt begins or ends: half a key no longer has the form of one, and is as secret as the whole."""
    store.create(Session(id="keys", title="Keys"))
    words = {f"kestrel{number}": "o " * number for number in range(0, 128, 3)}
    for number, (word, space) in enumerate(words.items()):
        texts = (f"{'x ' * 90}{word} {space}{SECRET}{' y' * 90}", f"{'x ' * 90}{SECRET} {space}{word}{' y' * 90}")
        store.append("keys", Message(role="user", content=texts[number % 2]))
    store.append("keys", Message(role="user", content=f"{' ' * 360}{SECRET}"))  # the timeline shows its beginning

    async def seen() -> list[str]:
        shown = []
        for word in words:
            found = await library.find(Query(f'"{word}"', limit=20))
            assert found is not None and found.answer.hits, word
            shown += [highlighted(match) for entry in found.answer.hits for match in entry.matches]
        [row] = [row for row in await library.rows() if row.id == "keys"]
        windows = library.windows(row)
        finds = [find for word in words for find in windows.search(word, 20)]
        assert len(finds) >= len(words)
        return [*shown, *(ask.text for ask in (*finds, *windows.asks(200)))]

    pieces = [SECRET[start : start + PIECE] for start in range(len(SECRET) - PIECE + 1)]
    assert [text for text in asyncio.run(seen()) if any(piece in text for piece in pieces)] == []


def _append_unnoted(store: ChatStore, name: str) -> None:
    """Add a line as an editor does: without a note for the list."""
    message = '{"id":"by-hand","seq":1,"role":"user","timestamp":"2026-03-02T10:00:00.000Z","content":"by hand"}\n'
    log = Path(store.root) / name / "current.jsonl"
    with log.open("a", encoding="utf-8") as file:
        file.write(message)


def test_a_request_looks_at_few_files_however_many_there_are(
    library: PageLibrary, store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large store, a request looks at the newest sessions and what was noted; the rest is compared beside it."""
    monkeypatch.setattr(refresh, "FEW", 10)
    monkeypatch.setattr(refresh, "NEWEST", 5)
    monkeypatch.setattr(web, "SWEEP", 0.0)
    for number in range(60):
        store.create(Session(id=f"s{number}", created_at="2026-01-01T10:00:00.000Z"))
        said = Message(role="user", content="said", timestamp=f"2026-01-01T10:{number:02}:00.000Z")
        store.append(f"s{number}", said)
    library._lister = library._finder(lambda: None, -1.0)
    library._sweep_due = math.inf
    looked: list[str] = []
    fingerprint = refresh._file_fingerprint

    def noted(path: str) -> str:
        looked.append(path)
        return fingerprint(path)

    async def counts() -> dict[str, int]:
        return {row.id: row.message_count for row in await library.rows()}

    async def asked() -> None:
        assert len(await counts()) == 63  # the first look is at everything
        monkeypatch.setattr(refresh, "_file_fingerprint", noted)
        store.append("s0", Message(role="user", content="more"))  # an old session, and our own writer
        assert (await counts())["s0"] == 2
        assert len(looked) < 30
        _append_unnoted(store, "s7")
        assert (await counts())["s7"] == 1  # nobody said so
        library._sweep_due = 0.0
        deadline = time.monotonic() + 20
        while (await counts())["s7"] != 2:
            assert time.monotonic() < deadline
            await asyncio.sleep(0)

    asyncio.run(asked())


def test_a_server_is_asked_for_one_session_and_announces_changes(library: PageLibrary) -> None:
    """Its list is not in ours: neither one conversation nor a change may need all of it."""
    asked: list[object] = []
    kept = Session(id="far", title="Far away", message_count=1)

    class Server(ServedSessions):
        def __init__(self) -> None:
            super().__init__("postgresql://db.example#home", "home", self)  # type: ignore[arg-type]

        def get(self, session_id: str) -> Session:
            asked.append(session_id)
            return kept

        def rows(self, where: object = (), *, limit: int = 0, order: str = "") -> list[Row]:
            asked.append(limit)
            return [self.shown(kept)]

    async def seen() -> None:
        await library.rows()
        server = Server()
        library._lister.listing._sources.append(server)
        asked.clear()
        assert (await library.row(web.store_key(server.root), "far")).title == "Far away"
        before = await library.state()
        kept.message_count = 2
        assert await library.state() != before
        assert asked == ["far", 1, 1]

    asyncio.run(seen())


def test_a_conversation_that_grows_is_not_read_again(
    library: PageLibrary, store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def row() -> Row:
        library.changed()
        return next(row for row in await library.rows() if row.id == "one")

    store.append("one", *(Message(role="assistant", content=f"step {number}") for number in range(30)))
    first = library.windows(asyncio.run(row()))
    store.append("one", Message(role="user", content="and one more"), Message(role="assistant", content="yes"))
    with monkeypatch.context() as patched:
        patched.setattr("cortext.services.library.windows.outlines_of", None)  # reading everything would fail
        grown = library.windows(asyncio.run(row()))
    assert (first.total, grown.total, grown.leaf, grown.own(0), grown.own(40, before=True)) == (31, 33, 32, 31, 31)
    assert [ask.text for ask in grown.asks(10)] == ["the one", "and one more"]
    store.append("one", Message(role="user", content="another way", parent=store.tail("one", 5)[0].id))
    assert library.windows(asyncio.run(row())).total == 30  # it went back: a branch


def test_a_search_that_nobody_waits_for_is_left_out(library: PageLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a person types, the requests of earlier letters are abandoned by the browser."""
    searched: list[str] = []
    find = library._searched

    def noted(query: Query) -> TypedAnswer:
        searched.append(query.text)
        return find(query)

    monkeypatch.setattr(library, "_searched", noted)
    here = {"the o": False, "the on": True, "the one": True}

    async def typed() -> list[TypedAnswer | None]:
        async def is_gone(text: str) -> bool:
            return not here[text]

        return await asyncio.gather(*(library.find(Query(text, limit=10), partial(is_gone, text)) for text in here))

    first, *others = asyncio.run(typed())
    assert searched == ["the on", "the one"]
    assert first is None and all(found is not None and found.answer.hits for found in others)
