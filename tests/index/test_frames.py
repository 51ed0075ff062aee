"""The words that frame a question are not searched for, in three languages; and what a question asks for besides."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cortext.index.search.frames import LEFT, MODEL, SAID, SESSION, STATE, SUMMARY, USER, WORK
from cortext.index.search.query import parse
from cortext.model import clock
from cortext.model.message import Message, Part
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.services.library.search import note_of, nothing_of
from cortext.services.library.typed_search import TypedSearch
from cortext.testing.table import every_row
from cortext.wiring.stores import Stores
from tests.index.world import World

ENGLISH = [
    ("where did I stop with the importer", STATE, "", "importer"),
    ("where did we leave off in the parser?", STATE, "", "parser?"),
    ("where were we with the importer", STATE, "", "importer"),
    ("where do we stand on the importer", STATE, "", "importer"),
    ("continue where we left off with the importer", STATE, "", "importer"),
    ("how far did we get with the importer", STATE, "", "importer"),
    ("what's the current state of the importer", STATE, "", "importer"),
    ("what is the latest on the importer", STATE, "", "importer"),
    ("what happened to the importer", STATE, "", "importer"),
    ("how is the importer coming along?", STATE, "", "importer"),
    ("what is left of the importer", LEFT, "", "importer"),
    ("what's still left to do for the release", LEFT, "", "release"),
    ("what is still open in the importer", LEFT, "", "importer"),
    ("what are the next steps for the importer", LEFT, "", "importer"),
    ("what remains to be done for the importer", LEFT, "", "importer"),
    ("what didn't we finish in the importer", LEFT, "", "importer"),
    ("sum up what we did about retries", SUMMARY, "", "retries"),
    ("can you please summarize what we tried with retries", SUMMARY, "", "retries"),
    ("sum up what we decided about retries", SUMMARY, "", "retries"),
    ("give me a short summary of the importer", SUMMARY, "", "importer"),
    ("bring me up to date on the importer", SUMMARY, "", "importer"),
    ("remind me why the importer", SUMMARY, "", "importer"),
    ("what do we know about retries", SUMMARY, "", "retries"),
    ("the session in which we did the importer", SESSION, "", "importer"),
    ("find the conversation where we talked about retries", SESSION, "", "retries"),
    ("which session was about the importer", SESSION, "", "importer"),
    ("when did I last work on the importer", SESSION, "", "importer"),
    ("have we ever seen deadlocks", SESSION, "", "deadlocks"),
    ("what did we do about retries", WORK, "", "retries"),
    ("what did I work on in the importer", WORK, "", "importer"),
    ("what did I tell you on tabs", SAID, USER, "tabs"),
    ("I asked for tabs", SAID, USER, "tabs"),
    ("I said tabs", SAID, USER, "tabs"),
    ("did I ever mention tabs", SAID, USER, "tabs"),
    ("my question about tabs", SAID, USER, "tabs"),
    ("what did you suggest for retries", SAID, MODEL, "retries"),
    ("you recommended retries", SAID, MODEL, "retries"),
    ("what was your advice on retries", SAID, MODEL, "retries"),
    ("which library did you recommend for retries", SAID, MODEL, "retries"),
]
GERMAN = [
    ("wo habe ich mit dem Importer aufgehört", STATE, "", "Importer"),
    ("wo waren wir beim Importer stehen geblieben?", STATE, "", "Importer"),
    ("wie weit sind wir mit dem Importer gekommen", STATE, "", "Importer"),
    ("was ist der aktuelle Stand beim Importer", STATE, "", "Importer"),
    ("was ist noch offen beim Importer", LEFT, "", "Importer"),
    ("was ist beim Importer noch zu tun", LEFT, "", "Importer"),
    ("was bleibt vom Importer übrig", LEFT, "", "Importer"),
    ("was sind die nächsten Schritte beim Importer", LEFT, "", "Importer"),
    ("fasse zusammen, was wir zum Importer gemacht haben", SUMMARY, "", "Importer"),
    ("fass den Importer zusammen", SUMMARY, "", "Importer"),
    ("was wissen wir über den Importer", SUMMARY, "", "Importer"),
    ("die Sitzung, in der es um den Importer ging", SESSION, "", "Importer ging"),
    ("wann habe ich zuletzt am Importer gearbeitet", SESSION, "", "Importer"),
    ("was haben wir am Importer gemacht", WORK, "", "Importer"),
    ("was habe ich dir zum Importer gesagt", SAID, USER, "Importer"),
    ("meine Frage zum Importer", SAID, USER, "Importer"),
    ("was hast du mir zum Importer empfohlen", SAID, MODEL, "Importer"),
    ("du hast den Importer vorgeschlagen", SAID, MODEL, "Importer"),
]
FRENCH = [
    ("où en étions-nous avec le parseur", STATE, "", "parseur"),
    ("où en est le parseur", STATE, "", "parseur"),
    ("où me suis-je arrêté dans le parseur", STATE, "", "parseur"),
    ("que reste-t-il à faire pour le parseur", LEFT, "", "parseur"),
    ("qu'est-ce qu'il reste à faire dans le parseur", LEFT, "", "parseur"),
    ("résume ce que nous avons fait sur le parseur", SUMMARY, "", "parseur"),
    ("que savons-nous sur le parseur", SUMMARY, "", "parseur"),
    ("la conversation sur le parseur", SESSION, "", "parseur"),
    ("quand ai-je travaillé sur le parseur", SESSION, "", "parseur"),
    ("qu'avons-nous fait dans le parseur", WORK, "", "parseur"),
    ("qu'ai-je dit sur le parseur", SAID, USER, "parseur"),
    ("ma question sur le parseur", SAID, USER, "parseur"),
    ("que m'as-tu proposé pour le parseur", SAID, MODEL, "parseur"),
    ("tu m'as proposé le parseur", SAID, MODEL, "parseur"),
]


@pytest.mark.req("FIND-12")
@every_row(("text", "view", "by", "words"), [*ENGLISH, *GERMAN, *FRENCH])
def test_the_words_of_a_frame_are_not_searched_for(text: str, view: str, by: str, words: str) -> None:
    found = parse(text)
    assert (found.intent.view, found.intent.by) == (view, by)
    assert " ".join(word.text for word in found.words) == words


@pytest.mark.req("FIND-12")
@every_row(
    "text",
    [
        "what is left-pad",
        "what is left join in SQL",
        "what is left of it",
        "what is the state of the art",
        "what is the status code of a redirect",
        "where did we stop the server",
        "where is the importer",
        "where was the cache file written",
        "how far is the moon",
        "how is the cache invalidated",
        "what happened",
        "what did I work on",
        "what did we do wrong",
        "what did we change the timeout to",
        "TypeError: what is left of the tree is undefined",
        "importer.py where did I stop with it",
        "session expired after login",
        "the session cookie expires",
        "find the session that expired",
        "which session is stored in redis",
        "summarize() returns None",
        "recap.py fails",
        "remind me to call Bob",
        "you only live once",
        "I asked",
        "suggested fixes for the cache",
        "was ist in der Datei",
        "was fehlt in der Config",
        "wo war der Fehler",
        "où est le fichier",
        '"where did I stop" with the importer',
        "+importer where did I stop with the importer",
    ],
)
def test_a_text_that_only_looks_like_a_frame_is_none(text: str) -> None:
    found = parse(text)
    assert (found.intent.view, found.intent.by) == ("", "")
    assert found.words


@pytest.mark.req("FIND-12")
def test_the_subject_of_a_frame_may_be_quoted_or_being_typed() -> None:
    assert [(word.text, word.phrase) for word in parse('what is left of "the importer"').words] == [
        ("the importer", True)
    ]
    (word,) = parse("what is left of the impor*").words
    assert (word.text, word.begins) == ("impor", True)
    found = parse("where did I see error: unknown flag --format")
    assert found.error is not None and found.error.text == "error: unknown flag --format"


@pytest.mark.req("FIND-12")
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("what did I say about the retry budget", USER),
        ("what did you suggest for the retry budget", MODEL),
        ("was hast du zum retry budget vorgeschlagen", MODEL),
    ],
)
def test_whose_words_are_asked_for_comes_first(tmp_path: Path, text: str, first: str) -> None:
    world = World(tmp_path)
    for role in (USER, MODEL):
        world.store.create(Session(id=f"of-{role}"))
        world.store.append(f"of-{role}", Message(role=role, content="The retry budget is three tries per call."))
    assert world.find(text)[0] == f"of-{first}"


@pytest.fixture
def worked(tmp_path: Path) -> World:
    """Two sessions of yesterday, one of them long, one of a week ago; in a zone in which UTC has another day."""
    world = World(tmp_path)
    day = clock.day(time.time() - 86_400)
    for name, at, count in (("long", f"{day}T10", 50), ("short", f"{day}T09", 1), ("old", "2024-01-10T10", 1)):
        world.store.create(Session(id=name))
        result = Part(type="tool_result", call_id="c1", output="raw output of a tool")
        for number in range(count):
            minute = f"{number:02}:00.000Z"
            world.store.append(
                name,
                Message(role="user", content=f"Please do step {number} of {name}", timestamp=f"{at}:{minute}"),
                Message(role="tool", parts=[result], timestamp=f"{at}:{minute}"),
            )
    return world


@pytest.mark.req("FIND-12")
@pytest.mark.parametrize(
    "text", ["what did I work on yesterday", "was habe ich gestern gemacht", "sur quoi ai-je travaillé hier"]
)
def test_work_of_a_day_lists_its_sessions_by_what_the_user_said(worked: World, text: str) -> None:
    answer = worked.search().search(Query(text))
    assert [hit.session.id for hit in answer.hits] == ["long", "short"]
    assert {match.role for hit in answer.hits for match in hit.matches} == {"user"}
    assert note_of(answer, text) == ""


@pytest.mark.req("FIND-12")
def test_work_of_a_day_is_complete_on_the_page_too(worked: World) -> None:
    stores = Stores(str(worked.root))
    finder = TypedSearch(stores.listing, stores.search, None, lambda: None)
    for text in ("what did I work on yesterday", "was habe ich gestern gemacht", "what did I do yesterday?"):
        found = finder.find(Query(text)).answer
        assert [row.id for row in found.rows] == ["long", "short"], text


@pytest.mark.req("FIND-12")
def test_work_of_a_day_on_which_only_the_model_spoke_lists_what_it_said(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.store.create(Session(id="alone"))
    at = f"{clock.day(time.time() - 86_400)}T09:00:00.000Z"
    world.store.append("alone", Message(role="assistant", content="The nightly build passed.", timestamp=at))
    (hit,) = world.search().search(Query("what happened yesterday")).hits
    assert (hit.session.id, hit.matches[0].role) == ("alone", "assistant")


@pytest.mark.req("FIND-12")
def test_a_day_on_which_nothing_was_said_is_named(worked: World) -> None:
    search = worked.search()
    day = clock.day(time.time() - 2 * 86_400)
    answer = search.search(Query("what did I do the day before yesterday"))
    assert list(answer.hits) == []
    assert nothing_of(answer, "") == f"Nothing was said the day before yesterday ({day})."
    answer = search.search(Query("what did I do yesterday", {"tool": "claude"}))
    assert nothing_of(answer, "").endswith(") with tool:claude.")
    answer = search.search(Query("what did we work on in March 2023"))
    assert nothing_of(answer, "") == "Nothing was said in March 2023 (2023-03-01 to 2023-03-31)."


@pytest.mark.req("FIND-12")
def test_a_named_day_is_that_of_the_local_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = parse("what did I work on in January 2026")
        assert found.intent.when == (20251231150000, 20260131145959)
        between = parse("what did we do between January and March 2026")
        assert between.intent.when == (20251231150000, 20260331145959)
    finally:
        monkeypatch.undo()
        assert os.environ.get("TZ") == before
        time.tzset()
