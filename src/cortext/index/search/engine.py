"""One user's search index: where it is kept, who may write it, and what it finds.

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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import tantivy

from cortext.errors import ConfigError, ModelError, SessionBusy, WriteFailed, index_busy
from cortext.index.search.ask import NAMES, Asking, between, restricted_to
from cortext.index.search.fuse import At, Scores, Signals, fused, in_order
from cortext.index.search.generation import BROKEN, Generation, Status, check_space, mark_of, seen, skipped
from cortext.index.search.keywords import NAME_PLACE, Hit, folder_size
from cortext.index.search.models import Models
from cortext.index.search.query import Query, moment
from cortext.index.search.update import KeywordUpdate
from cortext.index.search.words import STOP, WORD, clean
from cortext.index.sessions import SessionIndex, StoreSource
from cortext.io import files as fsio
from cortext.io import locks

if TYPE_CHECKING:
    from cortext.index.search.embed import Model
    from cortext.index.search.rank import Decides, Read


Progress = Callable[[str, int, int], None]  # what is being done, how much is done, how much there is

SCHEMA = 1  # version of everything in the folder
FEW_KEYS = 1_500  # up to this many sessions restrict the query itself; beyond it, results are filtered afterwards
CANDIDATES = 300
AT_ONCE = 20_000  # missing vectors that a query waits for
MOST = 20_000
NAMED = 60  # sessions that are found by their names
LEAST_NAMED = 0.3  # how much of a query is in a name that has none of its words whole
DURING = 100  # messages of the time that a query names
MESSAGE_FILTERS = ("role", "after", "before")
WIDER = 10  # times as many of the nearest are looked at if some are left out
CHECKED = 5_000  # messages, of the best sessions, of which it is asked whether the filters allow them
LEAST = 0.35  # how much of a query the best messages have, unless they are near in meaning, or it counts as not found


def _index_folder(cache: str) -> str:
    """Return the folder of the index: in the cache folder or, if that is read-only, among the temporary files."""
    usual = existing = os.path.join(cache, "search")
    while not os.path.exists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    if os.access(existing, os.W_OK):
        return usual

    try:
        fallback = os.path.join(tempfile.gettempdir(), f"cortext-{os.getuid()}")
        fsio.ensure_folder(fallback)
        status = os.lstat(fallback)
    except (OSError, WriteFailed):
        return usual  # the first write reports why it is impossible
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return os.path.join(fallback, "search") if is_ours else usual


class Results(NamedTuple):
    """What a query found, by (key, number of the message)."""

    scores: Scores
    terms: set[str]  # to highlight in snippets
    signals: Mapping[At, Signals] = {}
    dated: Collection[At] = ()  # the messages of the time that the query names
    far: float = 0.0  # a lower cosine means nothing

    def why(self, at: At) -> tuple[str, ...]:
        """Return what a message was found by: words, meaning, title, date; or that it is only next to one that was."""
        one = self.signals.get(at)
        if one is None:
            return ()
        reasons = {
            "words": one.words > 0,
            "meaning": one.meaning > self.far,
            "title": one.name > 0,
            "date": at in self.dated,
        }
        found = tuple(name for name, holds in reasons.items() if holds)
        return found or ("neighbour",)


class _Near(NamedTuple):
    """How close messages are in meaning, by (key, place)."""

    cosines: Mapping[tuple[int, int], float] = {}
    common: float = 0.0  # a cosine that any two texts reach
    far: float = 0.0  # a lower one means nothing
    sure: float = 0.0  # what texts about something else hardly reach


class Engine:
    """The index in the cache folder."""

    def __init__(self, cache: str, sources: Mapping[str, StoreSource], models: Models) -> None:
        self.folder = _index_folder(cache)
        self.sources = sources
        self.models = models
        self.trouble = ""  # why the last query was answered without meaning
        self.worded = True  # whether the last query's words were found, not only their meaning
        self.missing: list[str] = []  # the words of the last query that no message has
        self.more_to_do = False  # whether the last update left work for a background process
        self._generation: Generation | None = None
        self._keys: tuple[str, dict[tuple[str, str], int]] = ("", {})

    # ── folders ──────────────────────────────────────────────────────────────────────────────────────

    def _current(self) -> str:
        """Return the folder named by `current`; empty if there is none with our schema."""
        return self._named("current")

    def _named(self, pointer: str) -> str:
        try:
            name = fsio.read_text(os.path.join(self.folder, pointer), "replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        folder = os.path.join(self.folder, os.path.basename(name))
        return folder if name.startswith(f"{SCHEMA}-") and os.path.isdir(folder) else ""

    def _point(self, pointer: str, folder: str) -> None:
        fsio.replace_file(os.path.join(self.folder, pointer), [os.path.basename(folder).encode("ascii") + b"\n"])

    def _new_folder(self) -> str:
        fsio.ensure_folder(self.folder)
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
    ) -> bool:
        """Index what changed. Return False if another process is already doing so; results are as new as it got.

        A large number of vectors, or those of a slow model, are only made if the caller is `patient`.
        """
        self.more_to_do = False
        if not self.behind(listed, meaning=meaning):
            return True
        lock = self._lock(wait)
        if lock is None:
            return False
        with lock:
            self._retry_once("current", lambda: self._bring_up(listed, progress, meaning=meaning, patient=patient))
            self._sweep()
        return True

    def _retry_once(self, pointer: str, make: Callable[[], None]) -> None:
        """Write an index; a damaged one is discarded and recreated once. A full disk does not count as damage."""
        try:
            make()
        except BROKEN as error:
            check_space(error, self.folder)
            self._release(pointer)
            try:
                make()
            except BROKEN as again:
                check_space(again, self.folder)
                raise

    def _bring_up(self, listed: SessionIndex, progress: Progress | None, *, meaning: bool, patient: bool) -> None:
        generation = self.generation()
        if generation is None:
            fresh = self._new_folder()
            generation = self._generation = Generation(fresh)
            self._point("current", fresh)
        self._index_changes(generation, listed, progress)
        if meaning:
            self._embed(generation, listed, progress, patient=patient)

    def _release(self, *pointers: str) -> None:
        if self._generation is not None:
            self._generation.close()
            self._generation = None
        for pointer in pointers:
            path = os.path.join(self.folder, pointer)
            if os.path.exists(path):
                fsio.remove(path)

    def rebuild(self, listed: SessionIndex, progress: Progress | None = None, *, wait: float = 5.0) -> None:
        """Build a new index next to the old one, then switch to it. An interrupted rebuild is continued."""
        lock = self._lock(wait)
        if lock is None:
            raise index_busy()
        with lock:
            self._sweep()  # free the space of abandoned folders: it is needed
            self._retry_once("next", lambda: self._make_next(listed, progress))
            self._sweep()

    def _make_next(self, listed: SessionIndex, progress: Progress | None) -> None:
        folder = self._named("next")
        if folder == self._current():  # the previous rebuild was killed between the switch and removing `next`
            folder = ""
        made = Generation(folder or self._new_folder())
        try:
            if not folder:
                self._point("next", made.folder)
            self._index_changes(made, listed, progress)
            self._embed(made, listed, progress, patient=True)
        finally:
            made.close()
        self._point("current", made.folder)
        fsio.remove(os.path.join(self.folder, "next"))

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

    def _embed(self, generation: Generation, listed: SessionIndex, progress: Progress | None, *, patient: bool) -> None:
        name = self.models.wanted
        mark = mark_of(generation.state)
        if self.models.none or generation.state.fact(f"seen {name}") == mark:
            return
        meaning = generation.meaning(name)
        missing = meaning.missing()
        if missing:
            if not patient and (missing > AT_ONCE or not self.models.quick):
                self.more_to_do = True
                return
            step = (lambda done, total: progress("Embedding messages", done, total)) if progress else None
            meaning.update(self.models.model(name), listed, self.sources, step)
        else:
            meaning.merge()  # an earlier process may have been killed before merging
        generation.state.set_facts(**{f"seen {name}": mark})
        for old in generation.state.models():
            if old != name:  # every message has a vector of the new model: the old ones are obsolete
                generation.state.forget_model(old)
                fsio.remove_tree(generation.meaning(old).folder)

    def _lock(self, wait: float) -> locks.Lock | None:
        fsio.ensure_folder(self.folder)
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
                    fsio.remove_tree(entry.path)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────

    def find(
        self,
        query: Query,
        *,
        keys: Collection[int] | None = None,
        leave_out: Collection[int] = (),
        limit: int = CANDIDATES,
        exact: bool = False,
        like: int = 0,
        read: Read | None = None,
        decides: Decides = lambda text: 0.0,
    ) -> Results:
        """Return the messages found, by (key, number).

        `keys` are the sessions to search (None: all). `like` is the key of a session whose meaning is used instead of
        the query's. `read` returns messages; with it, the best candidates are ordered by their text. `decides` says
        how much of what the query asks about a text decides.
        """
        generation = self.generation()
        self.trouble, self.worded, self.missing = "", False, []
        if generation is None or (keys is not None and not keys):
            return Results({}, set())
        asking = Asking(generation.keywords, generation.words, exact=exact)
        restrictions = self._restrictions(generation, query, keys, leave_out)
        asked = asking.build(query, restrictions)
        if asked is None:
            return Results({}, set())
        newest = not query.wanted
        hits = self._hits(generation, asked, keys, limit, newest=newest)
        found = {(key, place): score for key, place, score in hits if place < NAME_PLACE}
        if newest:
            self.worded = True
            return Results(in_order(found), asking.lit)
        by_name = asking.build(query, restrictions, NAMES)
        named = [*hits, *(self._hits(generation, by_name, keys, NAMED) if by_name is not None else ())]
        names = self._names(generation, query, {key for key, place, _ in named if place >= NAME_PLACE})
        if query.when is not None:  # what was said at that time is a candidate even if others have more of the words
            during = [*restrictions, (tantivy.Occur.Must, between(generation.keywords, *query.when))]
            asked = asking.build(query, during)
            for key, place, score in self._hits(generation, asked, keys, DURING) if asked is not None else ():
                if place < NAME_PLACE:
                    found.setdefault((key, place), score)
        self.missing = asking.missing(query)
        self.worded = bool(found or names) and asking.occurs(query)
        if not self.worded:  # only stop words of the query matched, which does not answer it
            found, names = {}, {}
        # If a word is required or excluded, only keyword matches are shown, and meaning merely orders them.
        strict = exact or query.demands
        limit = 0 if strict else limit
        filtered = any(query.filters.get(name) for name in MESSAGE_FILTERS)
        near = _Near() if exact else self._near(generation, query.said, like, found, keys, limit, filtered=filtered)
        signals = fused(found, near.cosines, names, near=near.common, strict=strict)
        if filtered and not strict:
            allowed = self._allowed(generation, restrictions, signals) | {(key, place >> 1) for key, place in found}
            nearest = {at: cosine for at, cosine in near.cosines.items() if (at[0], at[1] >> 1) in allowed}
            signals = fused(found, nearest, names, near=near.common)
            signals = {at: one for at, one in signals.items() if at in allowed}
        if read is None or exact or like or self.models.none:
            return Results({at: one.whole for at, one in signals.items()}, asking.lit, signals, far=near.far)
        from cortext.index.search.rank import rerank

        def rarity(word: str) -> float:
            return _rarity(generation, word)

        ranked = rerank(query, signals, read, decides, self.models.static(), rarity)
        if self.worded and not query.demands and ranked.cosine < near.sure and max(names.values(), default=0.0) < LEAST:
            # Of "volcano eruption file", a message has "file": that is no answer.
            share = asking.share(query, rarity)
            self.worded = any(share(text) >= LEAST for text in ranked.texts)
        return Results(ranked.scores, asking.lit, signals, ranked.dated, near.far)

    def _names(self, generation: Generation, query: Query, keys: Collection[int]) -> dict[int, float]:
        """Return how much of the query is in the names of these sessions, from 0 to 1; rare words count more."""
        weights = {
            stem: _rarity(generation, word.text)
            for word in query.wanted
            for stem in generation.keywords.stems(word.text)
        }
        whole = sum(weights.values())
        found: dict[int, float] = {}
        for key, name in generation.state.names(keys).items():
            stems = set(generation.keywords.stems(name))
            share = sum(weight for stem, weight in weights.items() if stem in stems) / whole if whole else 1.0
            found[key] = share or LEAST_NAMED  # by a part of a word, or in a script without spaces
        return found

    def _hits(
        self,
        generation: Generation,
        asked: tantivy.Query,
        keys: Collection[int] | None,
        limit: int,
        *,
        newest: bool = False,
    ) -> list[Hit]:
        """Return the best documents of the allowed sessions."""
        hits = generation.keywords.search(asked, limit, newest=newest)
        if keys is None or len(keys) <= FEW_KEYS:
            return hits
        allowed = keys if isinstance(keys, (set, frozenset, dict)) else set(keys)
        more = limit
        kept = [hit for hit in hits if hit[0] in allowed]
        while len(kept) < min(limit, CANDIDATES) and len(hits) == more and more < MOST:
            more *= 4
            hits = generation.keywords.search(asked, more, newest=newest)
            kept = [hit for hit in hits if hit[0] in allowed]
        return kept[:limit]

    def _near(
        self,
        generation: Generation,
        said: str,
        like: int,
        found: Collection[tuple[int, int]],
        keys: Collection[int] | None,
        limit: int,
        *,
        filtered: bool,
    ) -> _Near:
        """Return how close messages are in meaning: the nearest of all, plus those that the words found."""
        name = self.models.usable(generation.state)
        if not name or not said.strip():
            return _Near()
        vectors = generation.meaning(name).vectors()
        if not len(vectors):
            return _Near()
        mean = vectors.mean(like) if like else None
        try:
            model = self.models.model(name)
            # If no word matched, drop those that are no words at all: their vectors would match anything.
            said = said if self.worded else _known(model, said)
            if mean is None and not said:
                return _Near()
            query = model.embed([said])[0] if mean is None else mean
        except (ModelError, ConfigError) as error:
            self.trouble = f"matched by keywords only: {error.message}"
            return _Near()
        few = keys if keys is not None and len(keys) <= FEW_KEYS else None
        many = keys is not None and few is None
        nearest = vectors.search(query, limit * WIDER if many or filtered else limit, few) if limit else []
        if many:
            allowed = set(keys or ())
            nearest = [item for item in nearest if item[0] in allowed]
            nearest = nearest if filtered else nearest[:limit]
        near = {(key, place): score for key, place, score in nearest if score >= model.far}
        near |= {(key, place): score for key, place, score in vectors.exactly(query, list(found))}
        return _Near(near, model.near, model.far, model.sure)

    def _allowed(
        self,
        generation: Generation,
        restrictions: Sequence[tuple[tantivy.Occur, tantivy.Query]],
        signals: Mapping[At, Signals],
    ) -> set[At]:
        """Return which messages the filters allow, of the best sessions: vectors know no role and no time, words do."""
        best = dict.fromkeys(key for key, _ in sorted(signals, key=lambda at: (-signals[at].whole, at)))
        counts = generation.state.by_key(best.keys())
        keys: list[int] = []
        room = CHECKED
        for key in best:
            if room <= 0:
                break
            keys.append(key)
            room -= counts[key][2] if key in counts else 0
        asked = [*restrictions, (tantivy.Occur.Must, restricted_to(generation.keywords, "session", keys))]
        hits = generation.keywords.search(tantivy.Query.boolean_query(asked), MOST, newest=True)
        return {(key, place >> 1) for key, place, _ in hits}

    def _restrictions(
        self, generation: Generation, query: Query, keys: Collection[int] | None, leave_out: Collection[int]
    ) -> list[tuple[tantivy.Occur, tantivy.Query]]:
        from tantivy import Occur

        found: list[tuple[tantivy.Occur, tantivy.Query]] = []
        if keys is not None and len(keys) <= FEW_KEYS:
            found.append((Occur.Must, restricted_to(generation.keywords, "session", list(keys))))
        if leave_out:
            found.append((Occur.MustNot, restricted_to(generation.keywords, "session", list(leave_out))))
        role = query.filters.get("role")
        if role:
            found.append((Occur.Must, restricted_to(generation.keywords, "role", [role])))
        after, before = query.filters.get("after", ""), query.filters.get("before", "")
        if after or before:
            first = moment(after) if after else 0
            last = moment(before, end=True) if before else 99991231235959
            found.append((Occur.Must, between(generation.keywords, first, last)))
        return found

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


def _rarity(generation: Generation, word: str) -> float:
    """Return the inverse document frequency of a word."""
    searcher = generation.keywords.searcher()
    often = min(
        (searcher.doc_freq("body", stem) for stem in generation.keywords.stems(word)), default=searcher.num_docs
    )
    return math.log(1 + (searcher.num_docs - often + 0.5) / (often + 0.5))


def _known(model: Model, said: str) -> str:
    """Return the words that a model knows; only our own model can tell, so for others all of them."""
    from cortext.index.search.embed import StaticModel

    return model.known(said) if isinstance(model, StaticModel) else said
