"""The services behind the page, each in a thread of its own: a slow search keeps nobody from reading.

The list, the search and the reading of conversations are the services that the commands use. Their databases are used
by one thread at a time.

A request brings the list up to date quickly: what cortext itself writes is noticed at once. The files of every session
are compared beside that, in a thread of its own, so that nobody waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cortext.config.load import settings_of
from cortext.errors import session_not_found
from cortext.model.query import Query
from cortext.services.library.listing import Listing, Row
from cortext.services.library.recall import masked_match
from cortext.services.library.sources import SessionHit
from cortext.services.library.stores import StoredConversation
from cortext.services.library.typed_search import TypedAnswer, TypedSearch
from cortext.services.library.windows import Windows
from cortext.wiring.stores import Stores

Result = TypeVar("Result")

FRESH = 0.5  # seconds for which the list counts as up to date: a new message must be seen within two
SEARCHED = 5.0  # the same for the list beside the search, which only knows the values to filter by
SWEEP = 5.0  # seconds at least between two comparisons of all files,
SHARE = 20  # and so many times what the last one took: they take at most 5 % of a processor
PATIENCE = 4.0  # seconds that a reader waits for a search while the index is being built
LOCATED = 10.0  # seconds after which new workspaces are looked for
KEPT = 8  # conversations whose outline is kept
PAGE = 50  # conversations on a page of the list

State = tuple[object, ...]  # changes whenever what is shown would


class PageLibrary:
    """What the page asks. Every method that answers is called in the event loop and works in a thread."""

    def __init__(self, later: Callable[[], None], folder: str = "", *, remote: bool = False) -> None:
        self.folder = folder or os.getcwd()
        self.remote = remote  # whether readers may sit at another machine
        self.stores = Stores(self.folder, only_reads=True)
        self._list = ThreadPoolExecutor(1, "list")
        self._search = ThreadPoolExecutor(1, "search")
        self._read = ThreadPoolExecutor(2, "read")
        self._sweep = ThreadPoolExecutor(1, "sweep")
        self._sweep_due = 0.0
        self._lister = self._finder(later, FRESH)
        self._searcher = self._finder(later, SEARCHED)
        self._roots: dict[int, tuple[float, list[str]]] = {}
        self._labels: dict[str, str] = {}  # of the stores; replaced as a whole, because every thread reads it
        self.progress = ""  # of the index, while it is being built
        self._searching = asyncio.Semaphore()  # one search at a time
        self._local = threading.local()
        self._windows: OrderedDict[tuple[str, str, int], tuple[State, Windows]] = OrderedDict()
        self._keeping = threading.Lock()  # for the windows, which all readers share

    def _finder(self, later: Callable[[], None], fresh: float) -> TypedSearch:
        return TypedSearch(self.stores.listing, self.stores.search, self._note, later, fresh=fresh, quick=True)

    def _located(self, finder: TypedSearch) -> TypedSearch:
        """Return the finder, with the stores that exist by now. Called in its thread."""
        self._sweep_if_due()
        at, roots = self._roots.get(id(finder), (-math.inf, []))
        if time.monotonic() - at > LOCATED:
            here = [location for location in self.stores.locations() if location.exists]
            self._labels = {location.root: location.label for location in here}
            now = [location.root for location in here]
            if at > -math.inf and now != roots:
                finder.renew()
            self._roots[id(finder)] = (time.monotonic(), now)
        return finder

    def _sweep_if_due(self) -> None:
        """Have the files of every session compared, if that was long ago. Only while the page is used."""
        if time.monotonic() > self._sweep_due:
            self._sweep_due = math.inf  # until it is done
            self._sweep.submit(self._compare_everything)

    def _compare_everything(self) -> None:
        began = time.monotonic()
        try:
            self.stores.listing().refresh_all()  # with the stores that exist by now
        finally:
            ended = time.monotonic()
            self._sweep_due = ended + max(SWEEP, SHARE * (ended - began))

    def _note(self, label: str, done: int, total: int) -> None:
        self.progress = f"{label}: {done:,} of {total:,}" if done < total else ""

    def warnings(self) -> list[str]:
        """Return why the settings file of the workspace cannot be used now; empty if it can."""
        return settings_of(self.stores.workspace, only_reads=True).broken_warnings()

    def check_settings(self) -> None:
        """Raise ConfigError or UnsafePath if the settings file of the workspace is broken: nothing may change then."""
        settings_of(self.stores.workspace)

    def close(self) -> None:
        """Stop the threads; what they are doing now is not waited for."""
        for pool in (self._list, self._search, self._read, self._sweep):
            pool.shutdown(wait=False, cancel_futures=True)

    async def in_reader(self, work: Callable[[], Result]) -> Result:
        """Run something that reads or changes conversations in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._read, work)

    def changed(self) -> None:
        """Show the next reader what was just changed here."""
        for finder in (self._lister, self._searcher):
            finder.expire()

    async def find(self, query: Query, is_gone: Callable[[], Awaitable[bool]] | None = None) -> TypedAnswer | None:
        """Answer a query; None if the search index is being built and that takes long.

        Searches take turns. One whose reader is gone by then is left out: whoever types asks again with every letter.
        """
        loop = asyncio.get_running_loop()
        if not query.text.strip():
            return await loop.run_in_executor(self._list, lambda: self._located(self._lister).find(query))
        try:
            async with asyncio.timeout(PATIENCE):
                await self._searching.acquire()
                answer: asyncio.Future[TypedAnswer] | None = None
                try:
                    if is_gone is None or not await is_gone():
                        answer = loop.run_in_executor(self._search, self._searched, query)
                        answer.add_done_callback(self._search_ended)
                finally:
                    if answer is None:
                        self._searching.release()
                return await asyncio.shield(answer) if answer is not None else None
        except TimeoutError:
            return None

    def _search_ended(self, answer: asyncio.Future[TypedAnswer]) -> None:
        self._searching.release()
        if not answer.cancelled():
            answer.exception()  # somebody has seen it, or has stopped waiting

    def _searched(self, query: Query) -> TypedAnswer:
        try:
            finder = self._located(self._searcher)
            found = finder.find(query)
            hits = [_masked(finder.listing, hit) for hit in found.answer.hits]
            return found._replace(answer=found.answer._replace(hits=hits))
        finally:
            self.progress = ""

    async def rows(self) -> list[Row]:
        """Return every session, for the statistics."""

        def all_rows() -> list[Row]:
            return self._located(self._lister).listing.rows()

        return await asyncio.get_running_loop().run_in_executor(self._list, all_rows)

    async def state(self) -> State:
        """Return a value that changes with the list."""
        return await asyncio.get_running_loop().run_in_executor(self._list, self._state)

    def _state(self) -> State:
        return self._located(self._lister).listing.state()

    async def row(self, store: str, session_id: str) -> Row:
        """Return the session with this id in the store with this key. Raises SessionNotFound.

        Both come from an address: they are only compared with what is known, and never part of a path.
        """
        return await asyncio.get_running_loop().run_in_executor(self._list, self._row, store, session_id)

    def _row(self, store: str, session_id: str) -> Row:
        listing = self._located(self._lister).listing
        for root in listing.stores:
            row = listing.row(root, session_id) if store_key(root) == store else None
            if row is not None:
                return row
        raise session_not_found(session_id[:80])

    def label(self, root: str) -> str:
        """Return the name of a store, as it was when its rows were listed."""
        return self._labels.get(root, root)

    def found(self, row: Row) -> StoredConversation:
        """Return a session with its store, opened for the thread that asks."""
        return self.reading(row.root).found(row)

    def reading(self, root: str) -> Listing:
        """Return the stores of the thread that asks; one that appeared since is among them."""
        listing: Listing | None = getattr(self._local, "listing", None)
        if listing is None or root not in listing.stores:
            listing = self._local.listing = self.stores.listing()
        return listing

    def windows(self, row: Row, leaf: int = -1) -> Windows:
        """Return a conversation to read in windows; kept while it does not change, and extended if it grows."""
        key = (row.root, row.id, leaf)
        state = (row.message_count, row.last_active, row.straight)
        with self._keeping:
            before, kept = self._windows.get(key, ((), None))
        if kept is not None and state == before:
            made = kept
        else:
            made = (kept.grown(row) if kept is not None else None) or Windows(self.reading(row.root), row, leaf)
        with self._keeping:
            self._windows[key] = (state, made)
            self._windows.move_to_end(key)
            while len(self._windows) > KEPT:
                self._windows.popitem(last=False)
        return made


def _masked(listing: Listing, hit: SessionHit) -> SessionHit:
    """Return a result whose snippets show no secret, and no piece of one."""
    return hit._replace(matches=[masked_match(listing, hit.session, match) for match in hit.matches])


def store_key(root: str) -> str:
    """Return the name of a store in addresses: short, and without its path."""
    return hashlib.blake2b(root.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
