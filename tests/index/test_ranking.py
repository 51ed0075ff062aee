"""Which message comes first, and what is said about why: names, decisions, dates, typos, neighbours, the ranker."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from cortext.index.search import rank
from cortext.index.search.arrays import np
from cortext.index.search.embed import StaticModel
from cortext.index.search.features import NAMES
from cortext.index.search.models import BUILT_IN
from cortext.index.search.named_time import named_time
from cortext.index.search.query import intent_of, parse
from cortext.index.search.rank import late
from cortext.index.search.state import IndexState
from cortext.index.search.words import is_thing
from cortext.index.sessions import Row, row_of
from cortext.model.message import Message, Part
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.services.library.search import note_of
from cortext.services.library.sources import Answer, SessionHit
from cortext.services.library.typed_search import typed
from cortext.services.text.decisions import decided_share, topic_words
from cortext.testing.table import every_row
from tests.index.world import World
from tests.support.cli import cortext

NOW = 1_794_900_000.0  # 2026-11-17


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@every_row(
    ("text", "subject", "decision"),
    [
        ("what did we decide about retry budgets?", "retry budgets?", True),
        ("What did we agree on for the API version", "the API version", True),
        ("which database did we choose", "database", True),
        ("did we talk about herons", "herons", False),
        ("decisions about logging", "logging", True),
        ("was haben wir über Logging entschieden?", "über Logging", True),
        ("what was decided about retries", "retries", True),
        ("what's the decision on logging", "logging", True),
        ("remind me what we decided about retries", "retries", True),
        ("what did we decide yesterday", "what did we decide", True),
        ("which island did we discuss", "island", False),
        ("wie haben wir das Haus gebaut", "das Haus gebaut", False),
        ("comment avons-nous installé postgres", "installé postgres", False),
        ("qu'avons-nous décidé pour les journaux", "pour les journaux", True),
        ("what's been decided about retries", "retries", True),
        ("who decided on tabs", "tabs", True),
        ("what did we decide about C", "C", True),
        ("welche Datenbank haben wir gewählt", "Datenbank", True),
        ("wofür haben wir uns beim Cache entschieden", "uns beim Cache", True),
        ("worüber haben wir gesprochen, als der Cache leer war", ", als der Cache leer war", False),
        ("qu'est-ce qu'on a décidé sur le cache", "sur le cache", True),
        ("qu'est-ce que nous avons décidé à propos du cache", "à propos du cache", True),
        ("pourquoi a-t-on choisi Redis", "Redis", True),
        ("qu'a-t-on décidé hier sur le cache", "sur le cache", True),
        ("decide", "decide", False),
        ("how does the parser decide", "how does the parser decide", False),
        ("what did we decide last month about retries", "retries", True),
    ],
)
def test_a_question_about_a_decision_is_about_its_subject(text: str, subject: str, decision: bool) -> None:
    assert intent_of(text)[:2] == (subject, decision)


@every_row(
    ("text", "words", "person", "decision"),
    [
        ("what did Alice decide about retries?", ["Alice", "retries?"], {"alice"}, True),
        ("what did alice decide about retries", ["alice", "retries"], {"alice"}, True),
        ("what has Bob agreed to on the retry budget", ["Bob", "retry", "budget"], {"bob"}, True),
        ("what has Bob said about retries", ["Bob", "retries"], {"bob"}, False),
        ("what did Alice and Bob settle on for retries", ["Alice", "Bob", "retries"], {"alice", "bob"}, True),
        ("remind me what Alice decided about retries", ["Alice", "retries"], {"alice"}, True),
        ("which database did Alice Smith choose", ["Alice", "Smith", "database"], {"alice", "smith"}, True),
        ("what was Anne-Marie's decision on retries", ["Anne-Marie", "retries"], {"anne-marie"}, True),
        ("what did the customer decide about retries", ["customer", "retries"], {"customer"}, True),
        ("what did she decide about retries", ["retries"], set(), True),
        ("was hat Alice zu Redis entschieden", ["Alice", "Redis"], {"alice"}, True),
        ("was haben Alice und Bob zu Redis vereinbart?", ["Alice", "Bob", "Redis"], {"alice", "bob"}, True),
        ("was hat Bob über Redis gesagt", ["Bob", "Redis"], {"bob"}, False),
        ("wofür hat sich Alice bei Redis entschieden", ["Alice", "Redis"], {"alice"}, True),
        ("was hat er zu Redis gesagt", ["Redis"], set(), False),
        ("was entschied Alice zu Redis", ["Alice", "Redis"], {"alice"}, True),
        ("welche Datenbank hat Bob gewählt", ["Bob", "Datenbank"], {"bob"}, True),
        ("qu'a décidé Alice sur le cache", ["Alice", "cache"], {"alice"}, True),
        ("qu'est-ce qu'Alice a décidé à propos du cache", ["Alice", "cache"], {"alice"}, True),
        ("pourquoi Alice a-t-elle choisi Redis", ["Alice", "Redis"], {"alice"}, True),
        ("que Bob a-t-il dit sur le cache", ["Bob", "cache"], {"bob"}, False),
        ("what did Alice decide", ["Alice"], set(), True),
        ("what did it say about retries", ["say", "retries"], set(), False),
        ("how does pytest decide about retries", ["pytest", "decide", "retries"], set(), False),
        ("warum hat der Server den Token abgelehnt", ["Server", "Token", "abgelehnt"], set(), False),
        ("install red hat", ["install", "red", "hat"], set(), False),
    ],
)
def test_who_decided_it_is_a_word_that_need_not_occur(
    text: str, words: list[str], person: set[str], decision: bool
) -> None:
    found = parse(text)
    assert ([word.text for word in found.words], set(found.person), found.intent.decision) == (words, person, decision)


@every_row(
    ("text", "first", "last"),
    [
        ("in March", 20260301000000, 20260331235959),
        ("in December", 20251201000000, 20251231235959),  # the last one, not the next
        ("on 8 May 2023", 20230508000000, 20230508235959),
        ("before 2025-06", 0, 20250601000000),
        ("yesterday", 20261116000000, 20261116235959),
        ("last Friday", 20261113000000, 20261113235959),
        ("im März", 20260301000000, 20260331235959),
        ("en mars 2025", 20250301000000, 20250331235959),
        ("gestern", 20261116000000, 20261116235959),
        ("since 2024", 20240101000000, 99991231235959),
        ("since last Friday", 20261113000000, 99991231235959),
        ("since yesterday", 20261116000000, 99991231235959),
        ("before yesterday", 0, 20261116000000),
        ("on Friday", 20261113000000, 20261113235959),
        ("am Montag", 20261116000000, 20261116235959),
        ("this morning", 20261117000000, 20261117235959),
        ("last night", 20261116000000, 20261117235959),
        ("the day before yesterday", 20261115000000, 20261115235959),
        ("vorgestern", 20261115000000, 20261115235959),
        ("seit vorgestern", 20261115000000, 99991231235959),
        ("letzte Woche", 20261103072000, 20261117072000),
        ("im letzten Monat", 20260918072000, 20261117072000),
        ("in den letzten 3 Tagen", 20261114072000, 20261117072000),
        ("vergangene Woche", 20261103072000, 20261117072000),
        ("depuis hier", 20261116000000, 99991231235959),
        ("dans le cache d'hier", 20261116000000, 20261116235959),
        ("hier soir", 20261116000000, 20261117235959),
        ("avant-hier", 20261115000000, 20261115235959),
        ("aujourd'hui", 20261117000000, 20261117235959),
        ("aujourd’hui", 20261117000000, 20261117235959),
        ("la semaine dernière", 20261103072000, 20261117072000),
        ("le mois dernier", 20260918072000, 20261117072000),
        ("l’année dernière", 20241117072000, 20261117072000),
        ("cette semaine", 20261110072000, 20261117072000),
        ("ce mois-ci", 20261018072000, 20261117072000),
        ("les 3 derniers jours", 20261114072000, 20261117072000),
        ("lundi dernier", 20261116000000, 20261116235959),
        ("depuis vendredi", 20261113000000, 99991231235959),
        ("au mois de mars", 20260301000000, 20260331235959),
        ("en fevrier", 20260201000000, 20260228235959),
        ("between January and March", 20260101000000, 20260331235959),
        ("from November to February 2026", 20251101000000, 20260228235959),
        ("zwischen 2026-01-10 und 2026-02-01", 20260110000000, 20260201235959),
    ],
)
def test_a_date_in_a_question_is_a_span_of_time(text: str, first: int, last: int) -> None:
    assert named_time(f"what broke {text}?", now=NOW).span == (first, last)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pourquoi le cache était vide hier", ["cache", "vide"]),
        ("qu'est-ce qu'on a décidé hier sur le cache", ["cache"]),
        ("erreur hier dans le cache", ["erreur", "cache"]),
        ("warum war der Cache vorgestern leer", ["Cache", "leer"]),
        ("was ging im letzten Monat im Cache kaputt", ["ging", "Cache", "kaputt"]),
        ("pourquoi le cache était vide la semaine dernière", ["cache", "vide"]),
    ],
)
def test_a_time_in_german_or_french_only_orders(text: str, words: list[str]) -> None:
    found = parse(text)
    assert found.intent.when is not None and found.filters == {}
    assert [word.text for word in found.words] == words


@every_row(
    "text",
    [
        "before the release",
        "may I use it",
        "march of the penguins",
        "port 2000000",
        "step 2 may fail",
        "batch 2048",
        "see today-list.md",
        "call today() there",
        "hier ist der Fehler",
        "was machst du hier",
        "der Server ist hier nicht erreichbar",
    ],
)
def test_a_text_without_a_date_names_no_time(text: str) -> None:
    assert named_time(text, now=NOW).span is None


@pytest.mark.parametrize(
    ("text", "subject", "when", "unclear"),
    [
        ("what broke before the release", "what broke", (0, 20260301120000), ""),
        ("what broke after v1.2?", "what broke ?", (20250301120000, 99991231235959), ""),
        ("what broke since the 1.2 release", "what broke", (20250301120000, 99991231235959), ""),
        ("was ist vor dem Release kaputt", "was ist kaputt", (0, 20260301120000), ""),
        ("what broke before v7.7", "what broke before v7.7", None, "before v7.7"),
        ("release the lock before use", "release the lock before use", None, ""),
        ("before the release notes", "before the release notes", None, ""),
    ],
)
def test_a_release_is_a_time_if_there_is_a_tag(
    text: str, subject: str, when: tuple[int, int] | None, unclear: str
) -> None:
    tags = {"": 20260301120000, "1.2": 20250301120000}
    found = intent_of(text, lambda version: tags.get(version, 0))
    assert (found.subject, found.when, found.unclear) == (subject, when, unclear)


@pytest.mark.req("FIND-06")
def test_before_the_release_means_before_the_tag(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for month in ("01", "09"):
        world.store.create(Session(id=f"deploy-{month}"))
        text = f"The deployment broke because disk number {month} was full."
        message = Message(role="user", content=text, timestamp=f"2024-{month}-10T10:00:00Z")
        world.store.append(f"deploy-{month}", message)
    search = world.search()
    answer = search.search(Query("why did the deployment break before the release"))
    assert note_of(answer, "").startswith('"before the release" was not used as a time: no git tag here')
    for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(name, "2024-05-01T10:00:00Z")
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "x"], ["tag", "v1.0"], ["tag", "x"]):
        subprocess.run(["git", *words], cwd=world.root, check=True)
    for text, first in (("before the release", "deploy-01"), ("after v1.0", "deploy-09")):
        answer = search.search(Query(f"why did the deployment break {text}"))
        assert answer.hits[0].session.id == first and "date" in answer.hits[0].matches[0].why
        assert answer.unclear == ""


def test_filters_quotes_and_signs_are_no_part_of_the_question() -> None:
    assert parse("retry after:yesterday").filters == {"after": "yesterday"}
    assert [(word.text, word.phrase) for word in parse('"last month" report').words] == [
        ("last month", True),
        ("report", False),
    ]
    assert [(word.text, word.excluded) for word in parse("today-list.md").words] == [("today-list.md", False)]
    asked_for = parse("what did we decide about retries -queue tool:claude last week")
    assert [word.text for word in asked_for.words] == ["retries", "queue"]
    assert asked_for.asked == "what did we decide about retries last week"
    assert asked_for.intent.decision and asked_for.intent.when is not None


def test_a_question_with_nothing_but_a_time_asks_for_that_time() -> None:
    assert parse("what did we do in 2025-06").filters == {} and parse("what did we do in 2025-06").words
    found = parse("what did we do yesterday")
    assert found.words == [] and set(found.filters) == {"after", "before", "role"}
    assert parse("what did we do before 2025").filters == {}, "2025 may be a word"
    for text in ("what did we do in January", "was haben wir im Januar gemacht", "since yesterday", "on Monday"):
        found = parse(text)
        assert found.words == [] and "after" in found.filters, text
    assert [word.text for word in parse("January").words] == ["January"], "without `in`, it is a word"


@pytest.mark.req("FIND-06")
def test_what_was_found_only_by_its_time_says_so(world: World) -> None:
    world.talk("now", "The cache is full again.")
    for text in ("what did we do today", "qu'avons-nous fait aujourd'hui", "after:today"):
        hits = world.search().search(Query(text)).hits
        assert [match.why for hit in hits for match in hit.matches] == [("date",)], text
    assert world.search().search(Query("role:user")).hits[0].matches[0].why == ()


def test_a_date_that_no_message_has_is_not_missing(world: World) -> None:
    world.store.create(Session(id="cache"))
    at = "2024-01-10T10:00:00Z"
    world.store.append("cache", Message(role="user", content="The cache is full again.", timestamp=at))
    search = world.search()
    answer = search.search(Query("cache in January 2024"))
    assert answer.hits[0].matches[0].why[-1] == "date"
    assert note_of(answer, "cache in January 2024") == ""
    answer = search.search(Query("cache zebra in January 2024"))
    assert "zebra" in note_of(answer, "") and "January" not in note_of(answer, "")


def test_function_words_of_other_languages_are_not_searched_for() -> None:
    assert [word.text for word in parse("où sont les tests du cache").words] == ["tests", "cache"]
    assert [word.text for word in parse("the du command").words] == ["du", "command"]
    assert [word.text for word in parse("install red hat").words] == ["install", "red", "hat"]
    assert [word.text for word in parse("warum hat der Server den Token abgelehnt").words][:2] == ["Server", "Token"]
    assert [word.text for word in parse("warum ist der cache nicht leer").words] == ["cache", "leer"]
    assert [word.text for word in parse("wie loggen wir den Namen des Agenten").words] == ["loggen", "Namen", "Agenten"]
    assert [word.text for word in parse("gibt es ein Problem mit dem Login").words] == ["Problem", "Login"]
    assert [word.text for word in parse("qu'est-ce qui bloque le cache").words] == ["bloque", "cache"]
    assert [word.text for word in parse("les").words] == ["les"]  # there is nothing else


@pytest.mark.req("FIND-06")
@pytest.mark.parametrize(
    ("text", "session"),
    [
        ("wo wird das Timeout im Client gesetzt", "timeout"),
        ("warum hat der Server den Token abgelehnt", "token"),
        ("wie funktioniert die Migration der Tabelle", "migration"),
        ("où est défini le timeout du client", "timeout"),
        ("pourquoi le token a été refusé par le serveur", "token"),
        ("comment se passe la migration des tables sur le serveur de production", "migration"),
    ],
)
def test_a_german_or_french_question_finds_english_talk(world: World, text: str, session: str) -> None:
    world.talk("timeout", "Where do we set the timeout of the client?", "In settings.py: client timeout 30 seconds.")
    world.talk("token", "Why was the token refused?", "The server rejects a token after an hour.")
    world.talk("migration", "How does the migration work?", "It copies the table in batches, on the production server.")
    world.talk("hat", "Which hat does the man wear at war?", "A den for the fox, on par with the base comment.")
    world.talk("words", "Das war also die Frage.", "On est sur la route par la mer, comment faire des plans?")
    assert world.find(text)[0] == session


@pytest.mark.req("FIND-06")
def test_a_title_counts_among_many_messages_with_the_word(world: World) -> None:
    world.talk("talk", *("The heron stands in the pond.", "I see.", "It waits.", "So do I.") * 120)
    world.talk("named", "When does the heron count start?", "At dawn, by the lake.", title="Heron census")
    world.talk("only-named", "When do we start?", "At dawn, by the lake.", title="Bird census")
    found = {item.session.id: item for item in world.search().search(Query("heron census")).hits}
    assert next(iter(found)) == "named"
    assert "title" in found["named"].matches[0].why
    assert found["only-named"].matches[0].why == ("title",)


@pytest.mark.req("FIND-06")
def test_a_hit_next_to_another_hit_is_shown(world: World) -> None:
    world.talk("one", "Which retry limit do we want for the payment service?", "The retry limit is seven.", "Noted.")
    matches = world.search().search(Query("retry limit payment")).hits[0].matches
    assert {match.seq for match in matches} == {0, 1}
    assert {match.why for match in matches} == {("words", "meaning")}


@pytest.mark.req("FIND-06")
def test_a_message_beside_a_hit_says_so(world: World) -> None:
    world.talk("one", "xx", "Does the walrus sleep on ice?", "Mostly so, qqzz.")
    found = world.search().messages(Query("walrus")).hits
    assert found[0].matches[0].why[0] == "words"
    assert {item.matches[0].why for item in found[1:]} <= {("neighbour",), ("meaning",)}


@pytest.mark.req("FIND-06")
def test_the_time_named_in_a_question_comes_first_and_hides_nothing(world: World) -> None:
    for month in ("01", "03", "05"):
        name = f"deploy-{month}"
        world.store.create(Session(id=name))
        text = f"The deployment broke because disk number {month} was full."
        world.store.append(name, Message(role="user", content=text, timestamp=f"2024-{month}-10T10:00:00Z"))
    found = world.search().search(Query("why did the deployment break in March 2024")).hits
    assert found[0].session.id == "deploy-03"
    assert "date" in found[0].matches[0].why
    assert {item.session.id for item in found} == {"deploy-01", "deploy-03", "deploy-05"}


@pytest.mark.req("FIND-06")
def test_what_somebody_decided_comes_first_with_or_without_the_name(world: World) -> None:
    world.talk("other", "Alice is on holiday until Monday.", "Alice sends a postcard, says Alice.")
    world.talk("talk", "Should the cache be in memory or on disk?", "Both are possible for the cache.")
    world.talk("bob", "Bob decided that the cache is in memory, because disks are slow.", "Fine.")
    world.talk("alice", "Alice decided that the cache is on disk, because memory is short.", "Fine.")
    logs = (
        "Should the logs be JSON or plain text?",
        "JSON is easier to parse.",
        "Let's use JSON for the logs, says Bob.",
    )
    world.talk("logs", *logs, "Decided: the logs are JSON, one object per line, in logs.py.", "logs.py is written.")
    search = world.search()
    answer = search.messages(Query("was hat Bob zu den Logs gesagt"))
    assert answer.hits[0].matches[0].seq == 2 and list(answer.absent) == []
    for text in ("what did Alice decide about the cache", "was hat Alice zum Cache entschieden"):
        answer = search.search(Query(text))
        found = [item.session.id for item in answer.hits]
        assert found[0] == "alice" and found[-1] == "other", "the name alone is no answer"
        assert not answer.is_only_near
    named, unnamed = (world.find(f"what did {who} decide about the cache") for who in ("Zoe", "we"))
    assert named == unnamed and set(named[:2]) == {"alice", "bob"}
    answer = search.search(Query("what did Zoe decide about the cache"))
    assert not answer.is_only_near
    assert "Zoe" in note_of(answer, "")


def test_a_decision_comes_before_talk_about_it(world: World) -> None:
    world.talk("talk", "Should the cache be in memory or on disk?", "Both are possible for the cache.")
    world.talk("done", "We decided: the cache is on disk, because memory is short.", "Fine.")
    assert world.find("what did we decide about the cache")[0] == "done"


@every_row(
    ("text", "share"),
    [
        ("We decided: the cache is on disk.", 1.0),
        ("We'll use the disk for the cache.", 1.0),
        ("For the cache, disk it is.", 1.0),
        ("The cache goes to the disk. Agreed.", 1.0),
        ("It turned out that the test was wrong. The cache is another matter.", 0.0),
        ("We have not decided about the cache on disk.", 0.0),
        ("Was it agreed that the cache is on disk?", 0.0),
        ("The logs are settled; about the cache we talk later, and about the disk, too.", 1.0),
        ("We agreed on the cache.", 0.5),
        ("The cache is on disk.", 0.0),
    ],
)
def test_only_a_sentence_that_decides_the_subject_counts(text: str, share: float) -> None:
    assert decided_share(text, topic_words("cache disk")) == share


def test_a_decision_about_a_retry_is_one_about_retries() -> None:
    assert decided_share("We decided: one retry is enough.", topic_words("retries")) == 1.0


def test_a_decision_about_something_else_does_not_come_first(world: World) -> None:
    world.talk("other", "It turned out that the test was wrong. The cache may be in memory, or where?", "Fine.")
    world.talk("denied", "We have not decided where the cache is.", "Later.")
    world.talk("done", "For the cache we'll use the disk, because memory is short.", "Fine.")
    assert world.find("what did we decide about the cache")[0] == "done"


@pytest.mark.parametrize("text", ["eployment", "ertificate", "conection limit", "deploymnet certficate"])
def test_what_a_part_of_a_word_or_a_typo_stands_for_has_its_meaning(world: World, text: str) -> None:
    for number in range(30):
        world.talk(f"noise-{number}", f"Glob **/resume{number}*.go in the devenv.", f"Edit cmd/entire/cli/e{number}.go")
    world.talk(
        "budget", "We need a budget for retries. Which limit do you suggest?", "Both three and seven are possible."
    )
    world.talk("limit", "The role heron had a connection limit of 5; it is 50 now.", "Good.")
    world.talk("deploy", "The deployment is broken again.", "The certificate of the registry had expired.")
    search = world.search()
    answer = search.messages(Query(text))
    best = answer.hits[0]
    assert best.session.id == ("limit" if "limit" in text else "deploy") and "words" in best.matches[0].why
    assert not answer.is_only_near


@pytest.mark.parametrize(
    "text", ['What does "button3" refer to?', 'what is "button3"', '"scroll the wheel" of a mouse']
)
def test_a_question_with_a_phrase_that_nobody_said_is_answered_without_the_quotes(world: World, text: str) -> None:
    world.talk("mouse", "Button 3 refers to the scroll wheel of the mouse.", "Yes, to its click.")
    world.talk("pond", "The pond is frozen.", "And the herons?")
    search = world.search()
    for answer in (search.search(Query(text)), search.messages(Query(text))):
        assert answer.hits[0].session.id == "mouse"
        assert answer.is_only_near and "occurs nowhere" in note_of(answer, text)
    assert search.search(Query(text, exact=True)).hits == []
    answer = search.search(Query("herons"))
    assert answer.hits[0].session.id == "pond" and not answer.is_only_near, "and the next query is not"


@pytest.mark.parametrize(
    "text", ['"scroll the wheel" tool:claude', "+absent wheel", '+"a wheel" mouse', '+"scroll the wheel"']
)
def test_what_is_required_is_found_or_not(world: World, text: str) -> None:
    world.talk("mouse", "Button 3 refers to the scroll wheel of the mouse.", "Yes, to its click.")
    assert world.search().search(Query(text)).hits == []


def test_two_letters_may_be_wrong_in_a_long_word(world: World) -> None:
    world.talk("one", "The authentication fails after an hour.")
    world.talk("two", "The pond is frozen.")
    search = world.search()
    answer = search.search(Query("authentcaton"))
    assert answer.hits[0].session.id == "one"
    assert not answer.is_only_near


def test_what_a_tool_returned_counts_less_than_what_was_said(world: World) -> None:
    result = Part(type="tool_result", call_id="c1", output="walrus feeding times")
    world.store.create(Session(id="tool"))
    world.store.append("tool", Message(role="tool", parts=[result]))
    world.store.create(Session(id="said"))
    world.store.append("said", Message(role="assistant", content="walrus feeding times"))
    assert world.find("walrus feeding times") == ["said", "tool"]


def test_late_interaction_finds_the_one_sentence_in_a_long_message() -> None:
    model = StaticModel()
    long = "The build ran for an hour and printed many lines. " * 8 + "We bought a puppy last week."
    near = late(model, "when did they get a dog", [long, "The server returned an error.", ""], lambda word: 1.0)
    assert near.texts[0, 0] > near.texts[1, 0] > near.texts[2, 0] == 0
    assert near.together([0, 1]) >= near.together([0]) == pytest.approx(near.texts[0, 0])
    nothing = late(model, "", ["anything"], lambda word: 1.0)
    assert np.max(nothing.texts) == nothing.together([0]) == 0.0


def _trees(path: Path, names: tuple[str, ...] = NAMES) -> str:
    """Write two trees: +1 if feature 0 is above 0.5, and +0.25 if feature 1 is above 2."""
    np.savez(
        path,
        names=np.array(names),
        roots=np.array([0, 1], dtype=np.int32),
        feature=np.array([0, 1], dtype=np.int32),
        threshold=np.array([0.5, 2.0], dtype=np.float32),
        children=np.array([[-1, -2], [-3, -4]], dtype=np.int32),
        values=np.array([0.0, 1.0, 0.0, 0.25], dtype=np.float32),
    )
    return str(path)


@pytest.mark.req("FIND-05")
def test_trees_add_the_values_of_the_leaves_that_a_row_reaches(tmp_path: Path) -> None:
    made = rank.ranker(_trees(tmp_path / "trees.npz"))
    assert made is not None
    rows = np.zeros((3, len(NAMES)), dtype=np.float32)
    rows[1, 0], rows[2, :2] = 0.6, (0.5, 3.0)
    corrections = made.scores(rows) - rank.START * rows[:, 0]
    assert corrections.tolist() == pytest.approx([0.0, 1.0, 0.25])
    assert made.scores(rows[:0]).tolist() == []


@pytest.mark.req("FIND-05")
def test_without_a_usable_file_there_is_no_ranker_and_search_still_works(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    assert rank.ranker(str(tmp_path / "missing.npz")) is None
    assert rank.ranker(str(tmp_path / "torn.npz")) is None
    assert rank.ranker(_trees(tmp_path / "others.npz", (*NAMES[:-1], "another"))) is None
    monkeypatch.setattr(rank, "ranker", lambda: None)
    world.talk("one", "How does a heron catch fish?", "By waiting.")
    assert world.find("heron fish") == ["one"]


@pytest.mark.req("FIND-05")
def test_the_ranker_is_the_measured_one_and_fits_the_features() -> None:
    from bench.train_ranker import PINNED

    assert hashlib.sha256(Path(rank.PATH).read_bytes()).hexdigest() == PINNED
    assert rank.ranker() is not None


def test_vectors_of_an_older_table_are_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.talk("cars", "My automobile needs a new engine", "The garage can do that on Monday.")
    world.talk("food", "Bake the bread for forty minutes", "And let the dough rest.")
    with monkeypatch.context() as old:
        old.setattr("cortext.index.search.models.BUILT_IN", "built-in/static-256-1")
        assert world.find("repairing a vehicle motor")[0] == "cars"
    search = world.search()
    answer = search.search(Query("repairing a vehicle motor"))
    assert answer.hits[0].session.id == "cars"
    assert (answer.meaningless, search.status().model) == ("", BUILT_IN)
    (folder,) = (path for path in world.cache().iterdir() if path.is_dir())
    state = IndexState(str(folder))
    assert state.models() == [BUILT_IN]
    state.close()


@pytest.fixture
def printed(world: World) -> World:
    """A store in which errors were printed by tools, among talk that has the same words."""
    for number in range(15):
        world.talk(
            f"noise-{number}", f"The space on device {number} is left as it is, no error there.", "Nothing, then."
        )
    world.store.create(Session(id="disk"))
    call = Part(type="tool_call", id="1", name="Bash", input={"command": "npm ci"})
    world.store.append(
        "disk",
        Message(role="user", content="Why does the build stop?"),
        Message(role="assistant", content="", parts=[call]),
        Message(
            role="tool",
            content="npm ERR! ENOSPC: no space left on device, write\nsrc/net/pool.go:88:14: undefined: Pool",
        ),
        Message(role="assistant", content="The disk is full. `reply_parser` and httpRetryLimit are fine."),
    )
    return world


@pytest.mark.req("FIND-10")
@pytest.mark.parametrize(
    "text", ["ENOSPC: no space left on device", "no space left on device", "src/net/pool.go:88:14: undefined: Pool"]
)
def test_an_error_is_found_first_without_quotes(printed: World, text: str) -> None:
    answer = printed.search().messages(Query(text))
    assert (answer.hits[0].session.id, answer.hits[0].matches[0].seq) == ("disk", 2)
    assert not answer.absent and not answer.is_only_near


@pytest.mark.req("FIND-11")
@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("parseInvoiceTotals", ["parseInvoiceTotals"]),
        ("where is src/pages/Checkout.tsx", ["src/pages/Checkout.tsx"]),
        ("src/net/retry.go", ["src/net/retry.go"]),
        ("reply_limit of the device", ["reply_limit"]),
        ('"the device is full"', ["the device is full"]),
        ("ENOSPC: no device left in space", ["ENOSPC: no device left in space"]),
        ("zookeeper", ["zookeeper"]),
        ("httpRetryLimit", []),
        ("http_retry_limit", []),
        ("replyParser", []),
        ("net/pool.go", []),
        ("pool.go:88", []),
        ("the build's disk-space", []),
    ],
)
def test_what_occurs_nowhere_is_named(printed: World, text: str, absent: list[str]) -> None:
    answer = printed.search().search(Query(text))
    assert list(answer.absent) == absent
    assert all(f'"{word}"' in note_of(answer, text) for word in absent)
    assert ("occurs nowhere" in note_of(answer, text)) == bool(absent)


@pytest.mark.req("FIND-11")
@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("parseInvoiceTotals", ["parseInvoiceTotals"]),
        ("httpRetryLim", []),
        ("http_retry_li", []),
        ("src/net/po", []),
        ("src/net/zoo", ["src/net/zoo"]),
        ("ENOSPC: no space left on dev", []),
        ("ENOSPC: no device left in spa", ["ENOSPC: no device left in spa"]),
        ("is httpRetryLimit fi", []),
        ("zooke", ["zooke"]),
        ("dev", []),
    ],
)
def test_what_is_being_typed_is_named_only_if_nothing_begins_with_it(
    printed: World, text: str, absent: list[str]
) -> None:
    answer = printed.search().search(Query(typed(text)))
    assert [word for word in answer.absent if len(word) > 2] == absent
    assert "*" not in note_of(answer, text)


@pytest.mark.req("FIND-10")
@pytest.mark.parametrize("text", ["src/net/po", "httpRetryLim", "reply_par", "ENOSPC: no space left on dev"])
def test_a_thing_that_is_being_typed_is_found_first(printed: World, text: str) -> None:
    assert printed.search().messages(Query(typed(text))).hits[0].session.id == "disk"


@pytest.mark.req("FIND-11")
@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("--no-space-left", ["--no-space-left"]),
        ("no.space.left", ["no.space.left"]),
        ("no-space-left", []),
        ("noSpaceLeft", []),
        ("net/pool.go:88", []),
        ("./src/net/pool.go", []),
        ("src\\net\\pool.go", []),
        ("`src/net/pool.go`", []),
        ("SRC/NET/pool.go", []),
    ],
)
def test_a_thing_with_signs_occurs_only_as_it_is_written(printed: World, text: str, absent: list[str]) -> None:
    search = printed.search()
    answer = search.search(Query(text))
    assert (list(answer.absent), answer.is_only_near) == (absent, bool(absent))
    assert list(search.search(Query(text, exact=True)).absent) == []


@every_row(
    ("text", "holds"),
    [
        ("no-shadow-branch", True),
        ("sha-256", True),
        ("parseReply", True),
        ("src/net/pool.go", True),
        ("--amend", True),
        ("v2.1.3", True),
        ("06be86d", True),
        ("cursor-based", False),
        ("end-to-end", False),
        ("24-hour", False),
        ("2026-11-15", False),
        ("10:30pm", False),
        ("1990s", False),
        ("importer", False),
    ],
)
def test_a_thing_is_told_from_a_word(text: str, holds: bool) -> None:
    assert is_thing(text) == holds


@pytest.mark.req("FIND-11")
@pytest.mark.parametrize(
    "text",
    ["where is parseDeviceSpace called", "parseDeviceSpace", '"space left in device"', "ENOSPC: no device space"],
)
def test_what_is_only_near_does_not_fill_a_page(printed: World, text: str) -> None:
    printed.talk("called", "Where is it called?", "The device is called space.")
    search = printed.search()
    answer = search.search(Query(text))
    assert answer.is_only_near and 0 < len(answer.hits) <= 5
    assert len(search.messages(Query(text, limit=100)).hits) <= 5


def test_a_long_trace_is_found_by_its_beginning_or_its_end(world: World) -> None:
    frames = [f"at module{number}.handler{number} (/app/src/file{number}.js:{number})" for number in range(12)]
    trace = "\n".join(["Error: broken pipe in the worker", *frames])
    for number in range(8):
        world.talk(f"other-{number}", f"{frames[11 - number]} and the worker", "Error: broken, of the handler")
    world.talk("trace", trace, "I see.")
    search = world.search()
    answer = search.search(Query(trace))
    assert answer.hits[0].session.id == "trace" and not answer.absent
    answer = search.search(Query(trace.replace("file11", "file99")))
    assert answer.hits[0].session.id == "trace"
    assert trace not in answer.absent and not answer.is_only_near, "its beginning is there"


@pytest.mark.req("FIND-11")
def test_a_bare_call_does_not_come_before_what_explains(world: World) -> None:
    call = Part(type="tool_call", id="1", name="Grep", input={"pattern": "func retryBudget"})
    world.store.create(Session(id="call"))
    world.store.append("call", Message(role="assistant", content="", parts=[call]))
    text = "The function retryBudget counts how often a call was tried, and says no after the third. It is in retry.go."
    world.talk("explains", "What is it for?", text)
    for query in ("retryBudget", "what does retryBudget do", "where is retryBudget"):
        assert world.search().messages(Query(query)).hits[0].session.id == "explains", query


def test_a_session_shows_the_same_text_once(world: World) -> None:
    error = "The walrus  feeding failed: exit status 1, see the log of the zoo"
    world.talk("zoo", error, "Again:", " ".join(error.split()), "And now?", "walrus!", "Yes.", "walrus!")
    world.talk("other", error, "Here too.")
    answer = world.search().messages(Query("walrus feeding failed"))
    shown = [(hit.session.id, hit.matches[0].snippet) for hit in answer.hits if "exit status" in hit.matches[0].snippet]
    assert sorted(name for name, _ in shown) == ["other", "zoo"]
    assert sum(hit.matches[0].snippet == "walrus!" for hit in answer.hits) == 2, "a short text may mean something else"


def test_sessions_of_one_title_are_told_apart_by_the_first_difference() -> None:
    def row(name: str, title: str, project: str = "", active: str = "") -> Row:
        return row_of(Session(id=name, title=title), "/1", "workspace")._replace(project=project, last_active=active)

    rows = [
        row("a", "Fix the walrus", "/home/x/zoo"),
        row("b", "fix the  walrus", "/home/x/sea"),
        row("c", "Feed it", "/home/x/zoo", "2026-03-02T10:00:00.000Z"),
        row("d", "Feed it", "/home/x/zoo", "2026-03-04T10:00:00.000Z"),
        row("e", "Wash it", "", "2026-03-04T10:00:00.000Z"),
        row("f", "Wash it", "", "2026-03-04T11:30:00.000Z"),
        row("g", "Pet it"),
        row("h", "Pet it"),
        row("i", "Alone", "/home/x/zoo"),
    ]
    names = Answer([SessionHit(one, []) for one in rows]).names
    assert names[:2] == ["Fix the walrus · zoo", "fix the  walrus · sea"]
    assert names[2:4] == ["Feed it · 2026-03-02", "Feed it · 2026-03-04"]
    assert [name[:21] for name in names[4:6]] == ["Wash it · 2026-03-04 "] * 2 and names[4] != names[5]
    assert names[6:] == ["Pet it · g", "Pet it · h", "Alone"]


def test_a_list_shows_what_tells_its_sessions_apart_and_json_does_not(world: World) -> None:
    for name in ("one", "two"):
        world.talk(name, f"The walrus of {name}.", title="Feed the walrus")
    done = cortext("search", "walrus", cwd=world.root)
    assert "Feed the walrus · one" in done.out and "Feed the walrus · two" in done.out
    hits = cortext("search", "walrus", "--json", cwd=world.root).json
    assert {hit["session"]["title"] for hit in hits} == {"Feed the walrus"}
