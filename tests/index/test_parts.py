"""The parts of search in isolation: query parsing, words, vectors and their clusters, score fusion, models."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import threading
import tracemalloc
import types
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortext.embedding import build
from cortext.errors import ConfigError, ModelUnreachable
from cortext.index.database import connect
from cortext.index.search import meaning
from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.fuse import Place, fused
from cortext.index.search.keywords import Keywords, WordList
from cortext.index.search.models import Models
from cortext.index.search.query import parse
from cortext.index.search.reading import only_grew
from cortext.index.search.state import IndexState
from cortext.index.search.vectors import (
    Segment,
    VectorSet,
    nearest_centroids,
    owner,
    pack,
    save_centroids,
    train_centroids,
    write,
)
from cortext.index.search.words import GAP, Vocabulary, camel_pieces, clean, words_of
from cortext.index.search.wordtable import ManyTerms
from cortext.model.query import Query, moment
from cortext.services.library.hits import WIDTH, snippet
from tests.index.world import World


def test_a_query_is_parsed_into_words_and_filters() -> None:
    query = parse(
        'How do we +fix "connection refused" -docker conf* tool:claude http://x.y:80 --amend after:7d after:x'
    )
    assert query.filters == {"tool": "claude", "after": "7d"}
    shown = [(word.text, word.phrase, word.begins, word.must, word.excluded) for word in query.words]
    assert shown == [
        ("fix", False, False, True, False),
        ("connection refused", True, False, False, False),
        ("docker", False, False, False, True),
        ("conf", False, True, False, False),
        ("http://x.y:80", False, False, False, False),
        ("--amend", False, False, False, False),
        ("after:x", False, False, False, False),
    ]
    assert [word.text for word in parse("who are you").words] == ["who", "are", "you"]  # stop words are all there is


@given(st.text())
def test_any_text_is_a_query(text: str) -> None:
    query = parse(text)
    assert all(word.text for word in query.words)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026", 20260101000000, 20261231235959),
        ("2026-11", 20261101000000, 20261130235959),
        ("2026-11-15", 20261115000000, 20261115235959),
        ("2026-11-15T09:30:00Z", 20261115093000, 20261115093000),
        ("2026-11-15T09:30:00+02:00", 20261115073000, 20261115073000),
        ("2026-13", -1, -1),
        ("soon", -1, -1),
    ],
)
def test_dates_become_sortable_numbers(text: str, first: int, last: int) -> None:
    assert (moment(text), moment(text, end=True)) == (first, last)


def test_relative_dates_are_in_order() -> None:
    assert 0 < moment("1y") < moment("3m") < moment("2w") < moment("7d") < moment("12h") < moment("today", end=True)
    assert moment("yesterday") < moment("today")


def test_words_and_camel_case_are_split() -> None:
    assert words_of("snake_case a/b.py") == ["snake", "case", "a", "b", "py"]
    assert words_of("snake_case a/b.py naïve") == ["snake", "case", "a", "b", "py", "naïve"]
    assert camel_pieces("parseHTTPReply2") == ["parse", "HTTP", "Reply", "2"]
    assert camel_pieces("plain") == camel_pieces("Plain") == camel_pieces("PLAIN") == []


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Keywords:
    return Keywords(str(tmp_path_factory.mktemp("keywords")))


def _both(index: Keywords) -> tuple[Vocabulary, ManyTerms]:
    how = index.plain.analyze, index.words.analyze
    return Vocabulary(*how), ManyTerms(*how)


def test_terms_include_the_pieces_of_camel_case(index: Keywords) -> None:
    for vocabulary in _both(index):
        found = vocabulary.terms(["The getUserName of getUserName", "", f"before {'long' * 16} Retries"])
        terms = [said.split() for said, _ in found]
        assert terms[:2] == [["the", "getusernam", "of", "getusernam"], []]
        assert terms[2] == ["befor", GAP, "retri"]  # a word that is too long keeps its position, but is not indexed
        assert [pieces.split() for _, pieces in found] == [["get", "user", "name"], [], []]
        assert vocabulary.fresh == {"the", "getusername", "of", "before", "retries"}


_TEXTS = st.lists(
    st.one_of(st.text(), st.text("aZ9é_. \n日ß⑴½\u0301ि"), st.text("aB", min_size=60, max_size=68), st.text("aB "))
)


@given(st.lists(_TEXTS, max_size=4))
def test_many_texts_have_the_same_terms_as_one_by_one(index: Keywords, batches: list[list[str]]) -> None:
    few, many = _both(index)
    for batch in batches:  # later batches see known words and grown tables
        texts = [clean(text) for text in batch]
        found = [(said.split(), pieces.split()) for said, pieces in few.terms(texts)]
        assert found == [(said.split(), pieces.split()) for said, pieces in many.terms(texts)]
        for text, (terms, _) in zip(texts, found, strict=True):
            assert [term for term in terms if term != GAP] == index.stems(text)  # as the index splits a query
    assert few.fresh == many.fresh


def test_a_table_of_words_grows_and_forgets(index: Keywords) -> None:
    texts = [
        " ".join(f"word{number} someName{number}" for number in range(start, start + 700))
        for start in range(0, 9_000, 500)
    ]
    few, many = _both(index)
    with mock.patch("cortext.index.search.wordtable.MOST_KNOWN", 5_000):
        for text in texts:
            assert [part.split() for part in many.terms([text])[0]] == [part.split() for part in few.terms([text])[0]]
    assert len(many._table) < 9_000


def test_the_word_list_finds_parts_of_words_and_stays_short(tmp_path: Path) -> None:
    words = WordList(str(tmp_path))
    assert words.holding("figu") == []
    words.add(["configure", "figure", "reconfigured"])
    assert words.holding("figu") == ["figure", "configure", "reconfigured"]
    assert words.holding("con", begins=True) == ["configure"]
    assert words.holding("fig") == words.holding("zzzz") == []  # three letters are part of too many words
    with mock.patch("cortext.index.search.keywords.SLACK", 10):
        size = words.tidy(0)
        for _ in range(10):
            words.add(["configure", "figure", "reconfigured", "more"])
        assert words.tidy(size) < 3 * size
    assert words.holding("figu") == ["figure", "configure", "reconfigured"]


@pytest.mark.req("TOOL-10")
def test_the_new_words_of_one_huge_session_are_not_all_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    many = 6_000
    texts = [" ".join(f"w{turn * many + number:08}heron" for number in range(many)) for turn in range(12)]
    world.talk("one", *texts)
    added: list[int] = []
    add = WordList.add

    def counted(words: WordList, new: Iterable[str]) -> None:
        batch = list(new)
        added.append(len(batch))
        add(words, batch)

    monkeypatch.setattr(WordList, "add", counted)
    monkeypatch.setattr("cortext.index.search.keyword_writer.MANY_WORDS", 2 * many)
    assert world.find("00000003hero") == world.find("00071998hero") == ["one"]  # parts of words: the list has them all
    assert sum(added) == 12 * many and max(added) < 8 * many


@given(st.text(max_size=600), st.sets(st.text(min_size=1, max_size=4)))
def test_a_snippet_is_a_window_with_highlighted_words(text: str, lit: set[str]) -> None:
    def tokens(piece: str) -> list[tuple[str, int, int]]:
        return [(letter, offset, offset + 1) for offset, letter in enumerate(piece)]

    shown, spans = snippet(text, lit, tokens)
    assert len(shown) <= WIDTH + 2
    assert all(shown[start:end] in lit for start, end in spans)


def test_only_a_log_that_grew_is_read_from_its_tail() -> None:
    assert only_grew("10.1.7 -", "20.2.7 -")
    assert not only_grew("20.1.7 -", "10.2.7 -")  # shorter
    assert not only_grew("10.1.7 -", "20.2.8 -")  # another file
    assert not only_grew("10.1.7 -", "20.2.7 5.5.5")  # messages moved to the archive


def test_the_embedding_table_is_the_measured_one() -> None:
    assert build.changed() == []


def test_one_text_and_many_have_the_same_vectors() -> None:
    model = StaticModel()
    texts = [
        "The database connection failed",
        "cannot connect to postgres",
        "a sunrise was painted",
        "",
        "日本語",
        "Café",
        "nest " * 300 + "sunrise",  # only the first 256 words of a text count
        f"{'getDatabaseName' * 5} sunrise",  # too long for a word
    ]
    one = np.concatenate([model.embed([text]) for text in texts])
    many = model.embed(texts * 3)[: len(texts)]
    assert float(np.abs(one - many).max()) < 1e-5
    near, far = float(one[0] @ one[1]), float(one[0] @ one[2])
    assert near > far + 0.3
    assert not one[3].any()


def test_several_threads_embed_at_once() -> None:
    model = StaticModel()
    batches = [[f"the {word}{number} of lot {batch}" for number in range(300) for word in "ab"] for batch in range(4)]
    alone = [StaticModel().embed(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(model.embed, batches))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


def _random(count: int, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    random = np.random.default_rng(seed)
    middles = random.normal(size=(40, 32))
    made = middles[random.integers(0, 40, count)] + 0.5 * random.normal(size=(count, 32))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def test_clusters_find_nearly_what_a_full_scan_finds(tmp_path: Path) -> None:
    vectors = _random(6_000)
    owners = np.array([owner(1 + row // 50, row % 50) for row in range(len(vectors))], dtype=np.uint64)
    packed, scales = pack(vectors)
    number = save_centroids(str(tmp_path), train_centroids(vectors[:3000], 64))
    found = VectorSet(str(tmp_path), [])
    nearest = nearest_centroids(packed, found.centroids(number))
    write(str(tmp_path / "a"), owners, scales, packed, nearest, 64, number)
    write(str(tmp_path / "b"), owners, scales, packed, None, 0, 0)
    with mock.patch("cortext.index.search.vectors.LOOKED_AT", 900):
        sorted_set, plain = VectorSet(str(tmp_path), ["a"]), VectorSet(str(tmp_path), ["b"])
        shares = []
        for query in _random(40, seed=1):
            all_of_them = {item[:2] for item in plain.search(query, 10)}
            shares.append(len(all_of_them & {item[:2] for item in sorted_set.search(query, 10)}) / 10)
    assert sum(shares) / len(shares) > 0.85
    query = vectors[777]
    key, place = 1 + 777 // 50, 777 % 50
    assert sorted_set.search(query, 1)[0][:2] == (key, place)
    assert sorted_set.search(query, 5, keys=[key])[0][:2] == (key, place)
    assert {item[0] for item in sorted_set.search(query, 20, keys=[3])} == {3}
    exact = sorted_set.exactly(query, [(key, place), (9_999, 1)])
    assert [item[:2] for item in exact] == [(key, place)]
    assert exact[0][2] > 0.99
    mean = sorted_set.mean(key)
    assert mean is not None
    assert sorted_set.mean(9_999) is None


@pytest.mark.parametrize("few", [10_000, 10])
def test_the_nearest_of_some_sessions_are_found_however_many_vectors_they_have(tmp_path: Path, few: int) -> None:
    vectors = _random(6_000)
    owners = np.array([owner(1 + row // 50, row % 50) for row in range(len(vectors))], dtype=np.uint64)
    packed, scales = pack(vectors)
    number = save_centroids(str(tmp_path), train_centroids(vectors[:3000], 64))
    nearest = nearest_centroids(packed, VectorSet(str(tmp_path), []).centroids(number))
    write(str(tmp_path / "a"), owners, scales, packed, nearest, 64, number)
    found = VectorSet(str(tmp_path), ["a"])
    keys = range(1, 61)  # half of them, and 3,000 vectors
    with mock.patch.multiple("cortext.index.search.vectors", LOOKED_AT=900, ENOUGH=20, FEW_SESSIONS=few):
        shares = []
        for query in _random(40, seed=1):
            among = vectors[:3_000] @ query
            right = {(1 + row // 50, row % 50) for row in np.argsort(-among)[:10].tolist()}
            shares.append(len(right & {item[:2] for item in found.search(query, 10, keys)}) / 10)
        assert sum(shares) / len(shares) > 0.85
        assert {item[0] for item in found.search(vectors[5_000], 500, keys)} <= set(keys)
        # What is wanted is nowhere near: of few sessions, all are compared.
        far = [1 + row // 50 for row in np.argsort(vectors @ vectors[0])[:1_000].tolist()]
        with mock.patch("cortext.index.search.vectors.ENOUGH", 1_200):
            assert (len(found.search(vectors[0], 1_200, set(far))) == 1_200) is (few > 120)


def test_a_file_without_vectors_is_refused(tmp_path: Path) -> None:
    for damage in (b"", b"short", b"x" * 100):
        (tmp_path / "bad").write_bytes(damage)
        with pytest.raises(ValueError, match="is not a vector file"):
            Segment(str(tmp_path / "bad"))


def test_small_vector_files_are_merged_without_removed_sessions(tmp_path: Path) -> None:
    world = World(tmp_path)
    with mock.patch.object(meaning, "MOST_FILES", 3), mock.patch("cortext.index.search.vectors.WORTH", 20):
        for number in range(8):
            world.talk(f"s{number}", *(f"the {word} of bird {number}" for word in ("wing", "nest", "egg", "song")))
            assert world.find(f"song bird {number}")
        world.store.delete("s0")
        world.talk("last", "one more bird", "and its nest")
        before = [set(world.find(text)) for text in ("bird nest", "song of a wing")]
        files = list(world.cache().glob("*/vectors/*/*.vectors"))
        assert 1 <= len(files) <= 4
        assert list(world.cache().glob("*/vectors/*/centroids-*.npy"))
    assert world.search().status().embedded >= 30
    world.search().rebuild()
    assert [set(world.find(text)) for text in ("bird nest", "song of a wing")] == before


def test_making_and_merging_vectors_keeps_one_copy_in_memory(tmp_path: Path) -> None:
    count = 16_384
    state = IndexState(str(tmp_path))
    vectors = meaning.Meaning(str(tmp_path), state, "random")
    os.makedirs(vectors.folder)
    made = np.random.default_rng(0).standard_normal((count, 256), dtype=np.float32)
    batches = iter([made[start : start + meaning.BATCH] for start in range(0, count, meaning.BATCH)])
    model = mock.Mock(dimension=made.shape[1], embed=lambda texts: next(batches))
    packed = made.nbytes // 4
    with mock.patch.object(meaning, "FILE_SIZE", count // 4), mock.patch.object(meaning, "AT_RISK", 600.0):
        making = meaning._Making(vectors, model)
        keys = [state.new_key("store", str(number)) for number in range(8)]
        state.new_key("store", "without vectors")
        tracemalloc.start()
        try:
            for key in keys:
                for place in range(count // 8):
                    making.add(owner(key, place), "")
                making.reached(key, count // 8)
            making.write()
            # One file's vectors, doubled while they are concatenated, the owners as Python ints, and one batch.
            assert tracemalloc.get_traced_memory()[1] < made.nbytes
            assert len(state.segments("random")) == 4
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with mock.patch.object(meaning, "MOST_FILES", 1), mock.patch("cortext.index.search.vectors.WRITTEN", 512):
                vectors.merge()
            assert tracemalloc.get_traced_memory()[1] - before < 2 * packed
        finally:
            tracemalloc.stop()
    assert [item.vectors for item in state.segments("random")] == [count]
    assert vectors.vectors().search(made[77], 1)[0][:2] == (keys[0], 77)
    state.close()


def _scores(
    words: dict[Place, float], meaning: dict[Place, float] | None = None, names: dict[int, float] | None = None
) -> dict[tuple[int, int], float]:
    return {at: one.whole for at, one in fused(words, meaning or {}, names or {}).items()}


def test_neighbours_and_sessions_add_to_the_score() -> None:
    words = {(1, 10): 4.0, (2, 10): 4.0, (2, 12): 2.0}
    scores = _scores(words)
    assert scores[2, 5] > scores[1, 5]  # the session has more about it
    assert scores[1, 6] > scores[1, 4] > 0  # a message adds more to the one after it than to the one before
    assert fused(words, {}, {}, strict=True).keys() == {(1, 5), (2, 5), (2, 6)}
    assert _scores({}, {}, {7: 1.0}) == {(7, 0): pytest.approx(1.6)}  # only the name matches
    assert _scores({(1, 11): 4.0})[1, 5] > scores[1, 5] - 0.31  # written by the user
    meant = _scores({(1, 10): 4.0}, {(1, 10): 0.5, (3, 10): 0.9})
    assert meant[1, 5] > meant[3, 5] > 0


class _Endpoint(BaseHTTPRequestHandler):
    """OpenAI's /embeddings on loopback: the vector counts the letters of the text."""

    inputs: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).inputs += body["input"]
        rows = [
            {"index": index, "embedding": [text.count(letter) + 0.01 for letter in "abcdefgh"]}
            for index, text in enumerate(body["input"])
        ]
        raw = json.dumps({"data": rows[::-1], "model": body["model"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    _Endpoint.inputs = []
    with HTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.req("FIND-02", "SAFE-02")
def test_a_configured_model_embeds_everything_again(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.talk("one", "aaaa bbbb", "key sk-ant-api03-" + "Zx9" * 31 + "AA end")
    world.find("aaaa")
    monkeypatch.setenv("CORTEXT_SEARCH_MODEL", "openai/letters")
    monkeypatch.setenv("CORTEXT_SEARCH_ADDRESS", endpoint)
    search = world.search()
    assert search.search(Query("aaaa")).hits[0].session.id == "one"  # answered with the old model's vectors
    assert search.refresh().has_more
    assert _Endpoint.inputs == []
    search.refresh(patient=True)
    assert (search.status().model, search.status().embedded) == ("openai/letters", 2)
    assert "Zx9Zx9" not in " ".join(_Endpoint.inputs)
    assert search.search(Query("aaaa")).hits[0].session.id == "one"
    assert _Endpoint.inputs[-1] == "aaaa"
    assert len(list(world.cache().glob("*/vectors/*"))) == 1  # the old model's vectors are gone
    monkeypatch.setenv("CORTEXT_SEARCH_ADDRESS", "http://127.0.0.1:9/v1")
    world.talk("two", "cccc")
    with pytest.raises(ModelUnreachable):
        world.search().refresh(patient=True)
    search = world.search()
    answer = search.search(Query("cccc"))
    assert answer.hits[0].session.id == "two"  # by its words
    assert "matched by keywords only" in answer.meaningless


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown search\.model 'magic/thing'"):
        Models("magic/thing")
    with pytest.raises(ConfigError, match="sentence-transformers"):
        Models("sentence-transformers/all").model("sentence-transformers/all")


class _Library:
    """The two calls of sentence-transformers that we use; the library itself is gigabytes, too large for tests."""

    def __init__(self, name: str) -> None:
        if name == "nowhere":
            raise OSError("nowhere is not a local folder and is not a valid model identifier\nand more")

    def encode(self, texts: list[str], *, normalize_embeddings: bool, show_progress_bar: bool) -> Any:
        assert normalize_embeddings and not show_progress_bar and isinstance(texts, list)
        rows = np.array([[text.count("a") + 1.0, text.count("b"), text.count("c")] for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_sentence_transformers_model_is_used_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = _Library  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    name = "sentence-transformers/some/model"
    model = Models(name).model(name)
    assert (model.name, model.embed([]).shape) == (name, (0, 3))
    found = model.embed(["aab", "ccc"])
    assert found.dtype == np.float32 and np.allclose(np.linalg.norm(found, axis=1), 1)
    with pytest.raises(ConfigError, match="could not be loaded: nowhere is not a local folder") as caught:
        Models("sentence-transformers/nowhere").model("sentence-transformers/nowhere")
    assert "and more" not in caught.value.message and "keyword search still works" in caught.value.kept


def test_a_database_is_closed_when_its_owner_is_collected(tmp_path: Path) -> None:
    class Holder:
        def __init__(self) -> None:
            self.database = connect(str(tmp_path))

    holder = Holder()
    assert _open_files(tmp_path) > 0
    holder.__dict__.clear()
    thread = threading.Thread(target=gc.collect)  # the collector may run in any thread
    thread.start()
    thread.join()
    assert _open_files(tmp_path) == 0


def _open_files(folder: Path) -> int:
    """Return how many descriptors of this process are open on files of the folder."""
    found = 0
    for link in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.resolve()).startswith(str(folder))
    return found
