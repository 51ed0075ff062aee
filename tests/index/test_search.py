"""What search finds: words, phrases, prefixes, parts of words, unspaced scripts, names, meaning; and what it omits."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.errors import UsageError
from cortext.model.message import Message, Part
from cortext.model.query import Query, check_filters
from cortext.model.session import Change, Origin, Session
from cortext.services.library.hits import LeftOut
from cortext.services.library.listing import Listing
from cortext.services.library.typed_search import typed
from cortext.testing.table import every_row
from tests.index.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.talk(
        "retry", "How often do we retry the payment service?", "Three tries, 250 ms apart, then we give up.",
        "And what does parseHttpReply do in src/net/reply_parser.py?", "It reads the status line first.",
        title="Retry budget", type="plan",
    )  # fmt: skip
    made.talk("birds", "Which bird stands still in the river?", "A heron. It hunts fish by waiting.", type="learn")
    made.talk("words", "検索エンジンを改善したい", "日本語の全文検索ですね。", "Größe und naïve Fälle", "Ja, gerne.")
    made.talk("errors", "It says ECONNREFUSED: connection refused", "The server is not running; start it first.")
    return made


CASES = [
    ("retries", "retry"),  # by its stem
    ('"connection refused"', "errors"),  # a phrase
    ('"refused connection"', None),
    ("hero*", "birds"),  # a beginning
    ("CONNREF", "errors"),  # a piece of a word
    ("reply_parser", "retry"),  # an identifier
    ("src/net/reply_parser.py", "retry"),
    ("parseHttpReply", "retry"),
    ("http reply", "retry"),  # camelCase taken apart
    ("日本語", "words"),
    ("全文検索", "words"),
    ("エンジン", "words"),
    ("grosse", "words"),  # ß and accents as people type them
    ("naive", "words"),
    ("heronn", "birds"),  # a letter wrong
    ("Retry budget", "retry"),  # the title
    ("heron -fish", None),
    ("+heron +fish", "birds"),
    ("type:learn bird", "birds"),
    ("type:plan heron", None),
    ("what is the retry budget?", "retry"),
]


@pytest.mark.req("FIND-02")
def test_a_message_without_words_is_not_shown_beside_the_answer(world: World) -> None:
    asked = "when doing `entire resume` we might flag to the user he should also pull: can we do this automatically?"
    world.talk("pull", asked, title="Resume flags conflicts")
    world.store.append("pull", Message(role="assistant", parts=[Part("thinking", text="resume, conflicts")]))
    world.store.append("pull", *(Message(role="assistant", content=f"step {number} of resume") for number in range(60)))
    found = world.search().search(Query("why does resume flag conflicts")).hits[0]
    assert found.matches[0].snippet == asked
    assert len(found.matches) > 1 and all(match.snippet for match in found.matches)


@pytest.mark.req("FIND-02")
def test_queries_find_the_expected_session(world: World) -> None:
    search = world.search()
    wrong = []
    for text, best in CASES:
        found = search.search(Query(text, exact=best is None)).hits  # without `exact`, some meaning is always near
        first = found[0].session.id if found else None
        if first != best:
            wrong.append((text, first, best))
    assert wrong == []


@pytest.mark.req("FIND-02")
def test_a_session_is_found_by_meaning_without_a_common_word(world: World) -> None:
    world.talk("cars", "My automobile needs a new engine", "The garage can do that on Monday.")
    world.talk("food", "Bake the bread for forty minutes", "And let the dough rest.")
    assert world.find("repairing a vehicle motor")[0] == "cars"
    assert world.find("repairing a vehicle motor", exact=True) == []


@pytest.mark.req("FIND-02")
def test_a_match_has_highlights_and_neighbours(world: World) -> None:
    match = world.search().search(Query("250 tries")).hits[0].matches[0]
    assert (match.seq, match.role) == (1, "assistant")
    assert {match.snippet[start:end] for start, end in match.highlights} >= {"tries", "250"}
    assert match.before.startswith("How often")
    assert match.after.startswith("And what does")
    assert match.id == list(world.store.read("retry"))[1].id


def test_unspaced_characters_are_highlighted(world: World) -> None:
    match = world.search().search(Query("全文検索")).hits[0].matches[0]
    assert "全文検索" in {match.snippet[start:end] for start, end in match.highlights}


def test_a_long_message_is_shown_around_the_match(world: World) -> None:
    world.talk("long", "filler words " * 4000 + "the zebra crossed here " + "more filler " * 4000)
    match = world.search().search(Query("zebra crossed")).hits[0].matches[0]
    assert "zebra crossed" in match.snippet
    assert len(match.snippet) < 260
    assert match.snippet.startswith("…")


@pytest.mark.req("FIND-02")
def test_tool_calls_and_their_results_are_found(world: World) -> None:
    world.store.create(Session(id="tools"))
    call = Part(type="tool_call", id="c1", name="Bash", input={"command": "terraform plan -out=tf.plan"})
    result = Part(type="tool_result", call_id="c1", output="Plan: 7 to add, 2 to kangaroo")
    world.store.append("tools", Message(role="assistant", parts=[call]), Message(role="tool", parts=[result]))
    assert world.find("terraform plan")[0] == "tools"
    assert world.find("kangaroo")[0] == "tools"


@pytest.mark.req("FIND-01")
def test_filters_by_every_property(world: World) -> None:
    world.store.create(Session(id="old", type="debug", agent="qa", origin=Origin(tool="claude")))
    world.store.append("old", Message(role="user", content="the heron again", timestamp="2020-05-01T10:00:00Z"))
    world.store.update("old", Change(status="paused"))
    for text in (
        "tool:claude", "type:debug", "agent:qa", "status:paused", "before:2021", "after:2020-05-01 before:2020-05-01",
    ):  # fmt: skip
        assert world.find(f"heron {text}") == ["old"], text
    assert world.find("heron after:2021") == ["birds"]
    assert world.find("heron", filters={"before": "2021"}) == ["old"]
    assert set(world.find("heron workspace:project")) == {"old", "birds"}
    assert world.find("heron workspace:elsewhere") == []
    assert world.find("heron role:user", exact=True) == ["old"]
    assert world.find("heron after:nonsense") != []  # an invalid filter is a word like any other
    with pytest.raises(UsageError, match="invalid --after value"):
        check_filters({"after": "nonsense"})
    with pytest.raises(UsageError, match="unknown filter"):
        check_filters({"colour": "blue"})


@pytest.mark.req("FIND-01")
def test_filters_leave_room_for_what_is_near_in_meaning(world: World) -> None:
    world.store.create(Session(id="cars"))
    old, new = "2020-05-01T10:00:00Z", "2024-05-01T10:00:00Z"
    world.store.append(
        "cars",
        *(Message(role="assistant", content="Fixing cars and trucks", timestamp=old) for _ in range(450)),
        *(Message(role="assistant", content="I see.", timestamp=old) for _ in range(3)),
        Message(role="user", content="The car has an old motor.", timestamp=new),
    )
    search = world.search()
    for filters in ("role:user", "after:2024-01 before:2024-12"):
        found = search.messages(Query(f"repairing a vehicle {filters}", limit=3)).hits
        assert [item.matches[0].snippet for item in found][:1] == ["The car has an old motor."], filters


@pytest.mark.req("FIND-01", "FIND-03")
def test_repeated_filters_see_what_changed(world: World) -> None:
    search = world.search()
    assert [found.session.id for found in search.search(Query("heron type:learn")).hits] == ["birds"]
    world.talk("more", "One more heron", type="learn")
    assert {found.session.id for found in search.search(Query("heron type:learn")).hits} == {"birds", "more"}
    assert search.search(Query("heron type:debug")).hits == []
    world.search().rebuild()  # by another process: the keys change
    assert {found.session.id for found in search.search(Query("heron type:learn")).hits} == {"birds", "more"}
    world.store.delete("birds")
    assert [found.session.id for found in search.search(Query("heron type:learn")).hits] == ["more"]


def test_filters_alone_list_the_newest_messages(world: World) -> None:
    assert world.find("type:learn") == ["birds"]
    assert world.find("") == []


@pytest.mark.req("FIND-02")
def test_the_current_session_and_copies_of_its_messages_are_left_out(world: World) -> None:
    first = list(world.store.read("birds"))
    world.store.create(Session(id="fork"))
    world.store.append("fork", *first)
    assert len(world.find("heron")) == 1  # the same message is shown once
    assert world.find("heron fish", leave_out={"birds"}) == []


@every_row(
    ("text", "query"),
    [
        ("heron", "heron*"),
        ("where is it", "where is it"),
        ("wo ist der", "wo ist der"),
        ("Where is THE", "Where is THE"),
        ("where is the hero", "where is the hero*"),
        ("reply_it", "reply_it"),
        ('"a heron', '"a heron'),
        ("heron ", "heron "),
        ("", ""),
    ],
)
def test_the_word_that_is_being_typed_is_a_prefix_unless_it_is_a_function_word(text: str, query: str) -> None:
    assert typed(text) == query


def test_a_session_that_is_left_out_is_read_once_until_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlined: list[str] = []
    read = LeftOut._read

    def noted(self: LeftOut, root: str, name: str) -> frozenset[str]:
        outlined.append(name)
        return read(self, root, name)

    monkeypatch.setattr(LeftOut, "_read", noted)
    monkeypatch.setattr(Listing, "messages", lambda *_: pytest.fail("a whole session was decoded"))
    search = world.search()
    for _ in range(3):
        assert search.search(Query("heron fish", leave_out=["birds"])).hits == []
    assert outlined == ["birds"]
    world.talk("birds", "A heron eats fish.")
    world.store.create(Session(id="fork"))
    world.store.append("fork", *world.store.read("birds"))
    assert search.search(Query("heron fish", leave_out=["birds"])).hits == [] and outlined == ["birds", "birds"]


def test_messages_returns_one_match_per_result(world: World) -> None:
    found = world.search().messages(Query("retry payment status", limit=3)).hits
    assert [len(item.matches) for item in found] == [1] * len(found)
    assert found[0].score == max(item.score for item in found)


@pytest.mark.req("FIND-02")
def test_a_little_of_a_question_is_not_an_answer(world: World) -> None:
    for number in range(12):
        world.talk(f"file-{number}", f"Please open the file number {number}", "It is open now.")
    search = world.search()

    def asked(text: str, *, exact: bool = False) -> tuple[bool, list[str]]:
        answer = search.search(Query(text, exact=exact))
        return answer.is_only_near, list(answer.absent)

    assert asked("volcano eruption file") == (True, ["volcano", "eruption"])
    assert asked("open the file") == (False, [])
    assert asked("open the file quickly, walrus") == (False, ["quickly", "walrus"])
    assert asked("opne the file numbre") == (False, ["opne", "numbre"]), "and found as they were meant"
    assert asked("volcano file", exact=True) == (False, ["volcano"])
    world.talk("japanese", "全文検索の設定", "はい、検索です。")
    assert asked("全文検索") == (False, [])
    assert asked("検索の速度") == (False, []), "a part of it"
    assert asked("open_the_file") == (False, [])
    assert asked("fil*") == (False, [])
    assert asked("openFileNow") == (True, ["openFileNow"]), "its pieces are near"
    assert asked("file -volc*") == (False, [])


@pytest.mark.req("FIND-02")
def test_similar_sessions_are_found_without_the_session_itself(world: World) -> None:
    world.talk("birds-too", "Does a stork catch fish in the river as a heron does?", "Yes, storks stand in rivers too.")
    search = world.search()
    search.refresh()
    row = next(found.session for found in search.search(Query("birds", limit=9)).hits if found.session.id == "birds")
    similar = [found.session.id for found in search.similar(row).hits]
    assert similar[0] == "birds-too" and "birds" not in similar


HOSTILE = [
    '"', "'", "AND OR NOT", "(((", "body:x^2~", "*", "-", "+", "a* b* c*", "tool:", ":", '"unclosed phrase',
    "'; DROP TABLE session; --", "\x00", "\x1b[2J\x1b]0;title\x07", "\ud800 lone", "NEAR(a b)", "[a TO z]", "{}", "\\",
    "x" * 1_000_000, "word " * 200_000, "-" * 5000, '"' * 5001, "日" * 10_000, "*heron*", "\u202eheron", "a:b:c:d",
    "%s%n",     "tool:claude" * 1000, "before:9999-99-99", "after:0000",
]  # fmt: skip


@pytest.mark.req("FIND-02")
def test_no_query_is_an_error(world: World) -> None:
    search = world.search()
    search.refresh()
    for text in HOSTILE:
        for exact in (False, True):
            assert isinstance(search.search(Query(text, exact=exact), fresh=False).hits, list)
    assert search.search(Query("heron")).hits[0].session.id == "birds"


@pytest.mark.req("FIND-02")
def test_hostile_contents_are_indexed_as_text(world: World) -> None:
    nasty = "\x1b[31mred\x1b[0m \x00 \u202e wombat " + "A" * 100_000 + " \ud800 " + "{" * 5000
    world.store.create(Session(id="nasty", title="\x1b]0;owned\x07"))
    world.store.append("nasty", Message(role="user", content=nasty))
    match = world.search().search(Query("wombat")).hits[0].matches[0]
    assert "wombat" in match.snippet
    match.snippet.encode("utf-8")  # a lone surrogate would raise
