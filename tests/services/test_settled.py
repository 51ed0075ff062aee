"""Which sentences settle something about a topic: who did, what was rejected, what is the same, what is reversed."""

from __future__ import annotations

import pytest

from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.services.text.decisions import rejected_in, topic_words
from cortext.services.text.settled import Decision, decisions_in, reverses, says_the_same

Said = tuple[tuple[str, str], ...]


def settled(topic: str, said: Said, title: str = "") -> list[Decision]:
    """Return the decisions of a conversation about a topic."""
    messages = [
        Message(role=role, content=text, seq=seq, timestamp=f"2026-01-{seq + 1:02}T10:00:00.000Z")
        for seq, (role, text) in enumerate(said)
    ]
    return decisions_in(messages, topic_words(topic), title)


REDIS = (ASSISTANT, "Shall we use Redis for the cache?")


@pytest.mark.parametrize(
    ("said", "by", "rejected"),
    [
        (((USER, "We use SQLite instead of Redis for the cache."),), "user", "Redis"),
        (((USER, "Decided: the cache is on disk, not in memory but in a file."),), "user", "in memory"),
        (((USER, "Drop Redis, the cache can be a file."),), "user", "Redis"),
        (((USER, "Do not use Redis for the cache."),), "user", "Redis"),
        (((USER, "We rejected Redis for the cache because it needs a server."),), "user", "Redis"),
        (((USER, "We no longer use Redis for the cache."),), "user", "Redis"),
        (((USER, "Never write secrets into the cache."),), "user", ""),
        (((USER, "Wir nehmen SQLite statt Redis für den Cache."),), "user", "Redis"),
        (((USER, "On garde le cache sur disque au lieu de Redis."),), "user", "Redis"),
        ((REDIS, (USER, "No, keep the disk.")), "user", "Redis"),
        ((REDIS, (USER, "No. Keep the disk.")), "user", "Redis"),
        ((REDIS, (USER, "Yes, do that.")), "agreed", ""),
        (((ASSISTANT, "I'd suggest a file rather than Redis for the cache."), (USER, "Agreed.")), "agreed", "Redis"),
        (((ASSISTANT, "Shall the cache use SQLite or Redis?"), (USER, "SQLite.")), "user", "Redis"),
        (((USER, "How big may the cache be?"), (ASSISTANT, "We settled on 100 MB.")), "model", ""),
        (((ASSISTANT, "I'll go with SQLite for the cache."),), "model", ""),
    ],
)
def test_a_decision_names_who_made_it_and_what_was_rejected(said: Said, by: str, rejected: str) -> None:
    found = settled("cache", said)
    assert [(one.seq, one.by, one.rejected) for one in found] == [(len(said) - 1, by, rejected)]
    assert said[-1][1].split()[0] in found[0].text, "word for word"


@pytest.mark.parametrize(
    "said",
    [
        ((USER, "Now do point 2"),),
        ((USER, "Jetzt machen wir Punkt 2."),),
        ((USER, "go on with the cache"),),
        ((USER, "Fix the cache, please."),),
        ((USER, "Let's continue with the cache."),),
        ((USER, "The cache returns None instead of the total."),),
        ((USER, "The cache never shrinks."),),
        ((USER, "The cache no longer starts."),),
        ((USER, "It can be a cache instead of a store."),),
        ((USER, "Right now, to empty the cache we use a shell script."),),
        ((USER, "The cache is a file instead of a server. " + "And so on. " * 400),),
        ((USER, "Should we use Redis for the cache?"),),
        ((USER, "Fix the cache. Also, everywhere in the docs site we decided to use tabs."),),
        ((ASSISTANT, "Now the cache is fixed."),),
        ((USER, "Why is the cache slow?"), (ASSISTANT, "Found the root cause.")),
        ((ASSISTANT, "Let's use Redis for the cache."),),
        ((ASSISTANT, "Nobody decided about the cache."),),
        ((ASSISTANT, "Shall I continue with the cache?"), (USER, "Yes, go on.")),
        ((ASSISTANT, "Shall I run the tests of the cache?"), (USER, "No.")),
        ((ASSISTANT, "The cache is done."), (USER, "We decided to paint the boat with tar, twice a year.")),
    ],
)
def test_an_order_a_symptom_or_another_subject_is_no_decision(said: Said) -> None:
    assert settled("cache", said) == []


def test_a_decision_next_to_the_topic_counts_only_if_the_title_is_about_it() -> None:
    said = ((USER, "The cache grows."), (ASSISTANT, "Seen."), (USER, "We decided to use tabs in every file we have."))
    assert settled("cache", said) == []
    assert [one.seq for one in settled("cache", said, title="The cache")] == [2]


def test_an_answer_to_a_tool_that_asks_is_the_users_decision() -> None:
    question = "Which store for the cache?"
    paint = "Which paint for the boat?"
    asked = {
        "questions": [
            {"question": paint, "options": [{"label": "tar"}, {"label": "SQLite"}]},
            {"question": question, "options": [{"label": "SQLite"}, {"label": "Redis"}]},
            {"question": "What about the cache would you like to do next?", "options": [{"label": "test it"}]},
        ]
    }
    next_ = asked["questions"][2]["question"]
    answers = f'"{paint}"="tar", "{question}"="SQLite", "{next_}"="test it"'
    answer = f"User has answered your questions: {answers}. You can now continue."
    messages = [
        Message(
            role=ASSISTANT, content="", seq=0, parts=[Part(TOOL_CALL, id="c", name="AskUserQuestion", input=asked)]
        ),
        Message(role=USER, content="", seq=1, parts=[Part(TOOL_RESULT, call_id="c", output=answer)]),
    ]
    [found] = decisions_in(messages, topic_words("cache"))
    assert (found.seq, found.by, found.rejected) == (1, "user", "Redis")
    assert found.text == f'SQLite (in answer to: "{question}")'


@pytest.mark.parametrize(
    ("sentence", "rejected"),
    [
        ("Use a file rather than a server.", "server"),
        ("Not tape but tar.", "tape"),
        ("Not in this release.", ""),
        ("Nicht Redis, sondern eine Datei.", "Redis"),
        ("Redis was ruled out.", "Redis"),
        ("The request was rejected by the server.", ""),
        ("We decided against a queue, since it loses work.", "queue"),
    ],
)
def test_what_a_sentence_rejects_is_named_in_its_words(sentence: str, rejected: str) -> None:
    assert rejected_in(sentence) == rejected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("We decided to keep the cache on disk.", "Decided: we keep the cache on the disk.", True),
        ("We use SQLite for the whole cache of the app.", "We use Postgres for the whole cache of the app.", False),
        ("The cache keeps at most 100 files of each user.", "The cache keeps at most 200 files of each user.", False),
        ("We decided to keep the cache.", "We decided not to keep the cache.", False),
    ],
)
def test_only_the_same_decision_in_other_words_is_the_same(one: str, other: str, *, same: bool) -> None:
    assert says_the_same(one, other) is same


@pytest.mark.parametrize(
    ("first", "then", "reversed_"),
    [
        ("We use SQLite for the cache.", (USER, "Drop SQLite, the cache can be plain files."), True),
        ("We use SQLite for the cache.", (USER, "The cache uses plain files instead of SQLite."), True),
        (
            "We use SQLite instead of plain files for the cache.",
            (USER, "We go back to plain files for the cache."),
            True,
        ),
        ("We use SQLite for the cache.", (ASSISTANT, "We decided on files instead of SQLite for the cache."), False),
        ("We use SQLite for the cache.", (USER, "We use two folders instead of one for the cache."), False),
        ("We use plain files instead of SQLite for the cache.", (USER, "Drop SQLite, the cache is files."), False),
        ("We use SQLite for the cache.", (USER, "Use Markdown instead of SQLite for the notes."), False),
    ],
)
def test_only_a_later_decision_against_the_same_thing_reverses(
    first: str, then: tuple[str, str], *, reversed_: bool
) -> None:
    words = topic_words("cache")
    earlier = settled("cache", ((USER, first),), title="cache")[0]
    [later] = settled("cache", ((USER, "Hm."), then), title="cache")
    assert reverses(later, earlier, words) is reversed_
    assert not reverses(earlier, later, words)
