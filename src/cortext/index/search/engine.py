"""One user's search index: where it is kept, who may write it, and questions to it (`finding` answers them).

The index is a folder inside the cache folder, named by the file `current`. A rebuild creates a new folder next to it,
named by `next`, and switches `current` at the end, so the old index answers meanwhile; an interrupted rebuild is
continued and loses a few seconds of work. One process at a time writes, under a lock. Readers take no lock.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from cortext.errors import SessionBusy, WriteFailed, index_busy
from cortext.index.refresh import StoreSource
from cortext.index.search.generation import BROKEN, Generation, Status, check_space, mark_of, seen, skipped
from cortext.index.search.keywords import folder_size
from cortext.index.search.models import Models
from cortext.index.search.retrieve import FEW_KEYS, Lookup, Results, Retriever
from cortext.index.search.update import KeywordUpdate
from cortext.index.search.words import STOP, WORD, clean
from cortext.index.sessions import SessionIndex
from cortext.io import durable, locks

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, how much there is


class UpdateResult(NamedTuple):
    """What an update of the index has left."""

    is_current: bool = True  # False: another process is indexing, and results are as new as it got
    has_more: bool = False  # a large number of vectors was left for a background process


SCHEMA = 1  # version of everything in the folder
AT_ONCE = 20_000  # missing vectors that a query waits for


def _index_folder(cache: str) -> str:
    """Return the folder of the index: in the cache folder or, if that is read-only, among the temporary files."""
    usual = existing = os.path.join(cache, "search")
    while not os.path.exists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    if os.access(existing, os.W_OK):
        return usual

    try:
        fallback = os.path.join(tempfile.gettempdir(), f"cortext-{os.getuid()}")
        durable.ensure_folder(fallback)
        status = os.lstat(fallback)
    except (OSError, WriteFailed):
        return usual  # the first write reports why it is impossible
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return os.path.join(fallback, "search") if is_ours else usual


class Engine:
    """The index in the cache folder."""

    def __init__(self, cache: str, sources: Mapping[str, StoreSource], models: Models) -> None:
        self.folder = _index_folder(cache)
        self.sources = sources
        self.models = models
        self._generation: Generation | None = None
        self._keys: tuple[str, dict[tuple[str, str], int]] = ("", {})

    # ── folders ──────────────────────────────────────────────────────────────────────────────────────

    def _current(self) -> str:
        """Return the folder named by `current`; empty if there is none with our schema."""
        return self._named("current")

    def _named(self, pointer: str) -> str:
        try:
            name = durable.read_text(os.path.join(self.folder, pointer), "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        folder = os.path.join(self.folder, os.path.basename(name))
        return folder if name.startswith(f"{SCHEMA}-") and os.path.isdir(folder) else ""

    def _point(self, pointer: str, folder: str) -> None:
        durable.replace_file(os.path.join(self.folder, pointer), [os.path.basename(folder).encode("ascii") + b"\n"])

    def _new_folder(self) -> str:
        durable.ensure_folder(self.folder)
        return os.path.join(self.folder, f"{SCHEMA}-{os.urandom(6).hex()}")

    def generation(self) -> Generation | None:
        """Return the index in use, or None if there is none yet."""
        folder = self._current()
        if self._generation is not None and self._generation.folder != folder:
            self._generation.close()
            self._generation = None
        if self._generation is None and folder:
            try:
                self._generation = Generation(folder)
            except BROKEN as error:
                check_space(error, self.folder)
                return None
        return self._generation

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def behind(self, listed: SessionIndex, *, meaning: bool = True) -> bool:
        """Whether the session list has changes that the index does not have."""
        generation = self.generation()
        try:
            if generation is None or seen(generation.state) != listed.counter() or generation.state.pending():
                return True
            wanted = "" if self.models.none or not meaning else f"seen {self.models.wanted}"
            if wanted and generation.state.fact(wanted) != mark_of(generation.state):
                return True
            return any(root in self.sources for root in skipped(generation.state))
        except BROKEN as error:
            check_space(error, self.folder)
            return True  # the next update recreates it

    def update(
        self,
        listed: SessionIndex,
        progress: Progress | None = None,
        *,
        meaning: bool = True,
        patient: bool = False,
        wait: float = 0.0,
    ) -> UpdateResult:
        """Index what changed, unless another process is already doing so.

        A large number of vectors, or those of a slow model, are only made if the caller is `patient`.
        """
        if not self.behind(listed, meaning=meaning):
            return UpdateResult()
        lock = self._lock(wait)
        if lock is None:
            return UpdateResult(is_current=False)
        with lock:
            is_complete = self._retry_once(
                "current", lambda: self._bring_up(listed, progress, meaning=meaning, patient=patient)
            )
            self._sweep()
        return UpdateResult(has_more=not is_complete)

    def _retry_once(self, pointer: str, make: Callable[[], bool]) -> bool:
        """Write an index; a damaged one is discarded and recreated once. A full disk does not count as damage."""
        try:
            return make()
        except BROKEN as error:
            check_space(error, self.folder)
            self._release(pointer)
            try:
                return make()
            except BROKEN as again:
                check_space(again, self.folder)
                raise

    def _bring_up(self, listed: SessionIndex, progress: Progress | None, *, meaning: bool, patient: bool) -> bool:
        generation = self.generation()
        if generation is None:
            fresh = self._new_folder()
            generation = self._generation = Generation(fresh)
            self._point("current", fresh)
        self._index_changes(generation, listed, progress)
        return not meaning or self._embed(generation, listed, progress, patient=patient)

    def _release(self, *pointers: str) -> None:
        if self._generation is not None:
            self._generation.close()
            self._generation = None
        for pointer in pointers:
            path = os.path.join(self.folder, pointer)
            if os.path.exists(path):
                durable.remove(path)

    def rebuild(self, listed: SessionIndex, progress: Progress | None = None, *, wait: float = 5.0) -> None:
        """Build a new index next to the old one, then switch to it. An interrupted rebuild is continued."""
        lock = self._lock(wait)
        if lock is None:
            raise index_busy()
        with lock:
            self._sweep()  # free the space of abandoned folders: it is needed
            self._retry_once("next", lambda: self._make_next(listed, progress))
            self._sweep()

    def _make_next(self, listed: SessionIndex, progress: Progress | None) -> bool:
        folder = self._named("next")
        if folder == self._current():  # the previous rebuild was killed between the switch and removing `next`
            folder = ""
        made = Generation(folder or self._new_folder())
        try:
            if not folder:
                self._point("next", made.folder)
            self._index_changes(made, listed, progress)
            is_complete = self._embed(made, listed, progress, patient=True)
        finally:
            made.close()
        self._point("current", made.folder)
        durable.remove(os.path.join(self.folder, "next"))
        return is_complete

    def clear(self) -> None:
        """Delete the index; the next query recreates it."""
        lock = self._lock(5.0)
        if lock is None:
            raise index_busy()
        with lock:
            self._release("current", "next")
            self._sweep()

    def discard(self) -> None:
        """Discard an index that cannot be read. If another process is writing, it will notice the damage itself."""
        self._release()
        lock = self._lock(5.0)
        if lock is not None:
            with lock:
                self._release("current")

    def _index_changes(self, generation: Generation, listed: SessionIndex, progress: Progress | None) -> None:
        name, number = listed.counter()
        known_name, known_number = seen(generation.state)
        if name != known_name:
            generation.state.another_list(name)
            known_number = -1
        left_out = set(skipped(generation.state))
        from_start = known_number < 0 or any(root in self.sources for root in left_out)
        changed, gone = listed.changes(-1 if from_start else known_number)
        if known_number < 0:
            # A different session list: compare everything, and drop what it does not have.
            gone = sorted(set(generation.state.all()) - listed.known())
        step = (lambda done, total: progress("Indexing messages", done, total)) if progress else None
        update = KeywordUpdate(generation.keywords, generation.words, generation.state, self.sources)
        update.run(changed, gone, step)
        tidy = generation.words.tidy(int(generation.state.fact("words", "0")))
        left_out |= {row.root for row, _, _ in changed}
        generation.state.set_facts(
            list=name,
            changed=str(number),
            words=str(tidy),
            skipped=json.dumps(sorted(left_out - self.sources.keys())),
        )
        update.merge()

    def _embed(self, generation: Generation, listed: SessionIndex, progress: Progress | None, *, patient: bool) -> bool:
        """Make the missing vectors; return False if they are left for a caller that is patient."""
        name = self.models.wanted
        mark = mark_of(generation.state)
        if self.models.none or generation.state.fact(f"seen {name}") == mark:
            return True
        meaning = generation.meaning(name)
        missing = meaning.missing()
        if missing:
            if not patient and (missing > AT_ONCE or not self.models.quick):
                return False
            step = (lambda done, total: progress("Embedding messages", done, total)) if progress else None
            meaning.update(self.models.model(name), listed, self.sources, step)
        else:
            meaning.merge()  # an earlier process may have been killed before merging
        generation.state.set_facts(**{f"seen {name}": mark})
        for old in generation.state.models():
            if old != name:  # every message has a vector of the new model: the old ones are obsolete
                generation.state.forget_model(old)
                durable.remove_tree(generation.meaning(old).folder)
        return True

    def _lock(self, wait: float) -> locks.Lock | None:
        durable.ensure_folder(self.folder)
        lock = locks.Lock(os.path.join(self.folder, "lock"))
        try:
            lock.acquire(wait, "the search index")
        except SessionBusy:
            return None
        return lock

    def _sweep(self) -> None:
        """Remove folders that no pointer names. Processes still reading one keep their open files."""
        kept = {os.path.basename(self._named(pointer)) for pointer in ("current", "next")}
        with os.scandir(self.folder) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False) and entry.name not in kept:
                    durable.remove_tree(entry.path)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────

    def find(self, lookup: Lookup) -> Results:
        """Return the messages found, by (key, number); nothing if there is no index yet."""
        generation = self.generation()
        return Retriever(generation, self.models).retrieve(lookup) if generation is not None else Results({})

    # ── presenting results ───────────────────────────────────────────────────────────────────────────

    def sessions(self, keys: Collection[int]) -> dict[int, tuple[str, str, int]]:
        """Return (store, id, number of messages) of each key."""
        generation = self._generation  # the one that was just queried: another may have other keys
        return generation.state.by_key(keys) if generation else {}

    def keys_of(self, pairs: Collection[tuple[str, str]]) -> list[int]:
        """Return the keys of sessions given by (store, id)."""
        generation = self.generation()
        if generation is None:
            return []
        if len(pairs) <= FEW_KEYS // 5:
            return [known.key for known in generation.state.of(pairs).values()]
        version = self.version()
        if self._keys[0] != version:
            self._keys = (version, generation.state.keys())
        return list(filter(None, map(self._keys[1].get, pairs)))  # no key is 0

    def version(self) -> str:
        """Return a name for this index and its content; keys stay valid as long as it does not change."""
        generation = self._generation or self.generation()
        return f"{generation.folder} {mark_of(generation.state)}" if generation else ""

    def strangers(self) -> bool:
        """Whether the index holds sessions of stores outside `sources`."""
        generation = self.generation()
        return generation is not None and not generation.state.roots() <= self.sources.keys()

    def tokens(self, text: str) -> list[tuple[str, int, int]]:
        """Return the terms of a text as indexed, with start and end offsets; unspaced runs as they are."""
        generation = self._generation  # the one that was just queried
        return generation.keywords.tokens(text) if generation else []

    def stems(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        generation = self._generation or self.generation()
        return generation.keywords.stems(text) if generation else []

    def rarest(self, text: str, most: int) -> list[str]:
        """Return the most characteristic words of a text: rare in the index and frequent in the text."""
        generation = self.generation()
        if generation is None:
            return []
        searcher = generation.keywords.searcher()
        total = max(searcher.num_docs, 1)
        said: dict[str, list[str]] = {}
        for word in WORD.findall(clean(text).lower()):
            if len(word) > 2 and word not in STOP:
                for stem in generation.keywords.stems(word):
                    said.setdefault(stem, []).append(word)
        worth = {
            words[0]: len(words) ** 0.5 * math.log(total / (searcher.doc_freq("body", stem) + 1) + 1)
            for stem, words in said.items()
        }
        return sorted(worth, key=lambda word: (-worth[word], word))[:most]

    def status(self, listed: SessionIndex) -> Status:
        """Return the size and state of the index."""
        generation = self.generation()
        if generation is None:
            return Status(self.folder, 0, 0, {}, self.models.wanted, 0, True)
        sessions, messages = generation.state.counts()
        whole = folder_size(generation.folder)
        vectors = folder_size(os.path.join(generation.folder, "vectors"))
        sizes = {"keywords": whole - vectors, "vectors": vectors}
        embedded = generation.meaning(self.models.wanted).count()
        return Status(generation.folder, sessions, messages, sizes, self.models.wanted, embedded, self.behind(listed))
