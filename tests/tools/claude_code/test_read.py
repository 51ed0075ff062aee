"""Reading: every kind of record, the ways a talk takes, damage, and going on from where a reading ended."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from tests.tools.claude_code.corpus import KEY, PIXEL, PROJECT, WHOLE_LIFE, Script, a_whole_life, at, call, read, short

from cortext.model.message import Message, thread
from cortext.tools.base import Transcript
from cortext.tools.claude_code_read import ClaudeReading

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "transcripts"


# ── what was said ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-01", "SESS-001d", "STORE-13")
def test_every_kind_of_record(tmp_path: Path) -> None:
    messages, reading = read(a_whole_life().save(tmp_path))

    assert [short(message) for message in messages] == WHOLE_LIFE
    assert reading.counts.unknown == reading.counts.damaged == {}
    assert reading.counts.skipped["attachment"] == 3
    assert reading.counts.skipped["api-request-blob"] == reading.counts.skipped["progress"] == 1
    assert reading.counts.skipped["meta"] == 2
    assert reading.counts.skipped["system/compact_boundary"] == reading.counts.skipped["compact summary"] == 1


@pytest.mark.req("STORE-13")
def test_what_else_crossed_survives(tmp_path: Path) -> None:
    messages, _ = read(a_whole_life().save(tmp_path))

    assert [part.text for part in messages[1].parts_of("thinking")] == ["Which one?"]
    (called,) = messages[3].parts_of("tool_call")
    assert (called.id, called.name, called.input) == ("toolu_1", "Bash", {"command": "ls songs"})
    (answered,) = messages[5].parts_of("tool_result")
    assert (answered.call_id, answered.name, answered.is_error) == ("toolu_1", "Bash", False)
    (image,) = messages[13].parts_of("image")
    assert (image.ref, image.media_type) == (f"{KEY}#{messages[13].id}/0", "image/png")
    assert PIXEL not in repr(messages)
    assert all(message.model == "claude-opus-5-5" for message in messages if message.role == "assistant")
    assert len({message.id for message in messages}) == len(messages)


def test_tokens_of_an_answer_are_given_once(tmp_path: Path) -> None:
    script = Script()
    script.user("go")
    script.assistant("one", answer="msg_x", tokens=2)
    script.assistant("two", answer="msg_x", tokens=2)
    script.assistant("three", answer="msg_x", tokens=90)
    script.assistant("other", answer="msg_y", tokens=7)

    messages, _ = read(script.save(tmp_path))

    assert [message.tokens for message in messages] == [None, 2, None, 88, 7]
    assert messages[1].usage == {"input_tokens": 10, "output_tokens": 2}
    assert messages[3].usage == {"output_tokens": 88}


def test_what_it_tells_about_itself(tmp_path: Path) -> None:
    _, reading = read(a_whole_life().save(tmp_path))

    about = reading.about
    assert (about.title, about.model, about.project) == ("Shanties", "claude-opus-5-5", PROJECT)
    assert (about.command, about.summary) == ("/workspace.brainstorm", "Summary: they sang.")
    assert about.created_at == "2026-11-01T10:00:01.000Z"
    assert about.tools == ["Bash", "Read"]


def test_a_summary_is_the_title_only_of_its_own_talk(tmp_path: Path) -> None:
    script = Script()
    leaf = script.user("hello")
    script.raw({"type": "summary", "summary": "Not this one", "leafUuid": "11111111-0000-4000-8000-000000000000"})
    script.raw({"type": "summary", "summary": "A greeting", "leafUuid": leaf})

    _, reading = read(script.save(tmp_path))
    assert reading.about.title == "A greeting"

    script.raw({"type": "custom-title", "customTitle": "Mine", "sessionId": KEY})
    script.raw({"type": "ai-title", "aiTitle": "Guess", "sessionId": KEY})
    _, reading = read(script.save(tmp_path))
    assert reading.about.title == "Mine"


def test_commands_of_the_program_itself_stay_beside_the_talk(tmp_path: Path) -> None:
    messages, _ = read(a_whole_life().save(tmp_path))

    asides = [short(message) for message in messages if message.aside]
    assert asides == [("user", "/compact"), ("system", "Compacted"), ("system", "API Error: 500")]


@pytest.mark.req("SAFE-03")
@pytest.mark.parametrize("meta", [False, True])
def test_our_own_block_is_not_the_users_word(tmp_path: Path, meta: bool) -> None:
    script = Script()
    script.user("Be brief.\n\n[RESUMED CONVERSATION]\nTitle: x\n[END RESUMED CONTEXT]", isMeta=meta)
    script.assistant("I am back.")
    script.user("What is a [RESUMED CONVERSATION]?")

    messages, _ = read(script.save(tmp_path))

    assert (messages[0].aside, messages[0].extra) == (True, {"resume_block": True})
    assert [short(message)[1] for message in thread(messages)] == ["I am back.", "What is a [RESUMED CONVERSATION]?"]


def test_several_results_in_one_record(tmp_path: Path) -> None:
    script = Script()
    script.assistant(call("a"), call("b"))
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    identity = script.user(
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}, picture]},
            {"type": "text", "text": "and now?"},
        ]
    )

    messages, _ = read(script.save(tmp_path))

    assert [short(message) for message in messages[1:]] == [("tool", "one"), ("tool", "two"), ("user", "and now?")]
    assert [message.id for message in messages[1:]] == [identity, f"{identity}/1", f"{identity}/2"]
    assert [part.ref for part in messages[2].parts_of("image")] == [f"{KEY}#{identity}/0"]


def test_blocks_of_unknown_kinds_are_counted_and_their_text_kept(tmp_path: Path) -> None:
    script = Script()
    script.assistant(
        {"type": "hologram", "text": "shimmer"}, {"type": "server_tool_use", "id": "s", "name": "web_search"}
    )
    script.user([{"type": "tool_result", "tool_use_id": "s", "content": [{"type": "smell", "text": "rose"}]}])

    messages, reading = read(script.save(tmp_path))

    assert messages[0].parts is not None
    assert messages[0].parts[0].text == "shimmer"
    assert messages[1].text == "rose"
    assert reading.counts.unknown == {"block hologram": 1, "result smell": 1}


# ── the ways a talk takes ────────────────────────────────────────────────────────────────────────────


def test_calls_side_by_side_are_one_way(tmp_path: Path) -> None:
    for order in ("together", "one by one"):
        script = Script()
        script.user("look")
        one = script.assistant(call("a"), answer="msg_x")
        if order == "together":
            two = script.assistant(call("b"), answer="msg_x")
            script.result("b", "second", parent=two)
            script.result("a", "first", parent=one)
        else:
            script.result("a", "first", parent=one, chain=False)
            two = script.assistant(call("b"), answer="msg_x")
            script.result("b", "second", parent=two)
        script.assistant("done", answer="msg_z")

        messages, _ = read(script.save(tmp_path))

        assert not any(message.parent for message in messages), order
        assert len(thread(messages)) == len(messages) == 6


def test_a_talk_that_went_back_and_took_another_way(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    fork = script.assistant("first answer")
    script.attachment(type="date")
    script.user("two")
    script.assistant("second answer")
    script.attachment(type="date")
    script.user("two, again", parent=fork)
    script.assistant("another answer")

    messages, _ = read(script.save(tmp_path))

    assert [message.parent for message in messages] == ["", "", "", "", fork, ""]
    assert [message.content for message in thread(messages)] == ["one", "first answer", "two, again", "another answer"]


def test_two_writers_at_once(tmp_path: Path) -> None:
    script = Script()
    fork = script.user("start")
    left = script.assistant("left 1", parent=fork)
    right = script.assistant("right 1", parent=fork)
    left = script.user("left 2", parent=left)
    right = script.user("right 2", parent=right)
    script.assistant("left 3", parent=left)
    script.assistant("right 3", parent=right)

    messages, _ = read(script.save(tmp_path))

    assert len(messages) == 7
    assert [message.content for message in thread(messages)] == ["start", "right 1", "right 2", "right 3"]


def test_side_agents_are_asides(tmp_path: Path) -> None:
    script = Script()
    script.user("look")
    script.user("side prompt", parent=None, chain=False, isSidechain=True)
    script.assistant("main answer")
    transcript = script.save(tmp_path)
    side = Script("agent-a1")
    side.user("dig", isSidechain=True, agentId="a1")
    side.assistant("dug", isSidechain=True, agentId="a1")
    folder = tmp_path / KEY / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_bytes(side.data())
    (folder / "agent-a1.meta.json").write_text("{}", encoding="utf-8")

    messages, reading = read(transcript)

    assert [message.content for message in messages] == ["look", "side prompt", "main answer", "dig", "dug"]
    assert [message.aside for message in messages] == [False, True, False, True, True]

    side.user("more", isSidechain=True)
    (folder / "agent-a1.jsonl").write_bytes(side.data())
    messages, _ = read(transcript, reading.cursor)
    assert [message.content for message in messages] == ["more"]


def test_a_record_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    script = Script()
    script.user("hello")
    script.raw(script.lines[-1])

    messages, reading = read(script.save(tmp_path))

    assert len(messages) == 1
    assert reading.counts.skipped == {"repeated": 1}


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-04")
def test_two_records_glued_on_one_line_are_both_read(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    script.assistant("two")
    script.raw(script.lines.pop(0) + script.lines.pop(0))
    script.raw({"type": "last-prompt", "sessionId": KEY})
    bookkeeping = script.lines.pop()
    script.user("three")
    script.raw(bookkeeping + script.lines.pop())
    script.result("a", "four " * 1000)
    script.user("five")
    five, four = script.lines.pop(), script.lines.pop()
    script.raw(four + five)

    messages, reading = read(script.save(tmp_path))

    assert [short(message)[1].split()[0] for message in messages] == ["one", "two", "three", "four", "five"]
    assert reading.counts.damaged == {}


@pytest.mark.req("TOOL-04")
@pytest.mark.parametrize("torn", ["talk", "bookkeeping"])
def test_a_torn_record_loses_only_itself(tmp_path: Path, torn: str) -> None:
    script = Script()
    script.user("one")
    if torn == "talk":
        script.user("torn " * 20)
    else:
        script.raw({"type": "queue-operation", "content": "torn " * 20, "sessionId": KEY})
    half = script.lines.pop()[:-30]
    script.tip = None
    script.user("two")
    whole = script.lines.pop()
    # Killed while it wrote, the program goes on at the end of the torn line.
    script.raw(half + whole)
    script.raw(half)
    script.user("three")

    messages, reading = read(script.save(tmp_path))

    assert [message.content for message in messages] == ["one", "two", "three"]
    assert sum(reading.counts.damaged.values()) == 2
    assert len(reading.counts.places) == 2


@pytest.mark.req("TOOL-04")
def test_unknown_and_broken_records_are_counted_by_kind(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    script.raw({"type": "dream-journal", "sessionId": KEY})
    script.raw({"type": "dream-journal", "uuid": "d1", "parentUuid": script.tip})
    script.raw({"no": "type"})
    script.raw(b"not json at all")
    script.raw(b'{"type":"user","message":{"role":"user","content":17},"uuid":"x"}')
    script.raw(b"\xff\xfe\xfd")
    script.raw(b"[1, 2]")
    script.raw(b"[" * 5_000)
    script.record("system", {"subtype": "brand_new"})
    script.user("two")

    messages, reading = read(script.save(tmp_path))

    assert [message.content for message in messages] == ["one", "two"]
    assert reading.counts.unknown == {"dream-journal": 2, "without type": 1, "system/brand_new": 1}
    assert reading.counts.damaged == {"not JSON": 3, "unexpected shape": 2}


def test_broken_characters_are_kept_as_they_are(tmp_path: Path) -> None:
    script = Script()
    script.raw(b'{"type":"user","uuid":"u1","message":{"role":"user","content":"half \\ud83d pair \\u0000"}}')
    script.raw(b'\0\0\0{"type":"user","uuid":"u2","message":{"role":"user","content":"after NULs"}}')

    messages, reading = read(script.save(tmp_path))

    assert [message.content for message in messages] == ["half \ud83d pair \0", "after NULs"]
    assert reading.counts.damaged == {}


def test_records_without_an_id_get_one_that_stays(tmp_path: Path) -> None:
    script = Script()
    script.raw({"type": "user", "message": {"role": "user", "content": "who am I"}})

    (first,), _ = read(script.save(tmp_path))
    (second,), _ = read(script.save(tmp_path))

    assert first.id == second.id != ""


def test_one_very_large_record(tmp_path: Path) -> None:
    script = Script()
    script.user("cat it")
    script.assistant(call("a"))
    script.result("a", "x" * 6_000_000)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 8_000_000}}
    script.user([{"type": "text", "text": "and this?"}, picture])
    script.assistant("large")
    transcript = script.save(tmp_path)
    del script
    tracemalloc.start()
    lengths = [len(message.text) for message in ClaudeReading(transcript)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert lengths == [6, 0, 6_000_000, 9, 5]
    assert peak < 60_000_000


def test_memory_does_not_grow_with_the_words(tmp_path: Path) -> None:
    script = Script()
    for number in range(2_000):
        script.user(f"{number} " + "word " * 1_000)
    transcript = script.save(tmp_path)
    del script
    tracemalloc.start()
    count = sum(1 for _ in ClaudeReading(transcript))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 2_000
    assert peak < 8_000_000  # the file has 10 MB


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────


def grow(path: Path, data: bytes) -> None:
    """Append what a file lacks, as the program does."""
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(data[file.tell() :])


def grown(path: Path, data: bytes) -> tuple[list[Message], ClaudeReading]:
    grow(path, data)
    return read(at(path))


def _a_branching_talk() -> Script:
    script = a_whole_life()
    fork = script.tip
    script.user("this way")
    script.user("no, that way", parent=fork)
    script.assistant(call("z"), answer="msg_last")
    script.result("z", "ü 答")
    return script


@pytest.mark.req("TOOL-03")
def test_a_reading_goes_on_at_every_line(tmp_path: Path) -> None:
    script = _a_branching_talk()
    whole, _ = read(script.save(tmp_path))
    for cut in range(len(script.lines) + 1):
        path = tmp_path / str(cut) / f"{KEY}.jsonl"
        before, reading = grown(path, b"".join(line + b"\n" for line in script.lines[:cut]))
        cursor = json.loads(json.dumps(reading.cursor))
        grow(path, script.data())
        after, reading = read(at(path), cursor)

        assert before + after == whole, cut
        assert read(at(path), reading.cursor)[0] == []
        assert reading.about.title == "Shanties"
        assert reading.about.command == "/workspace.brainstorm"


@pytest.mark.req("TOOL-03")
def test_a_reading_goes_on_at_every_byte(tmp_path: Path) -> None:
    script = Script()
    fork = script.user("öne")
    script.assistant("two", call("a"))
    script.result("a", "three")
    script.user("four", parent=fork)
    data = script.data()
    whole, _ = read(script.save(tmp_path))
    for cut in range(len(data) + 1):
        path = tmp_path / str(cut) / f"{KEY}.jsonl"
        before, reading = grown(path, data[:cut])
        assert reading.counts.damaged == {}
        grow(path, data)
        after, _ = read(at(path), reading.cursor)
        assert before + after == whole, cut


@pytest.mark.req("TOOL-03")
def test_a_file_that_was_rewritten_is_read_whole(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    script.user("two")
    _, reading = read(script.save(tmp_path))
    path = tmp_path / f"{KEY}.jsonl"
    for data in (
        b"",
        script.lines[0] + b"\n",
        script.data().replace(b"one", b"uno"),
        script.data().replace(b"two", b"tow"),
    ):
        path.write_bytes(data)
        messages, _ = read(at(path), reading.cursor)
        assert len(messages) == data.count(b"\n")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(at(path), reading.cursor)


def test_a_cursor_that_makes_no_sense_is_not_used(tmp_path: Path) -> None:
    script = Script()
    script.user("one")
    transcript = script.save(tmp_path)
    for cursor in ({}, {"offset": "many"}, {"offset": 10**9, "seen": ""}, {"offset": 5, "seen": "x"}):
        assert len(read(transcript, cursor)[0]) == 1


def test_many_messages(tmp_path: Path) -> None:
    line = Script()
    line.user("PLACE")
    template = line.lines[0]
    path = tmp_path / f"{KEY}.jsonl"
    with path.open("wb") as file:
        for number in range(20_000):
            file.write(template.replace(b"PLACE", b"%d" % number).replace(b'"uuid":"', b'"uuid":"%d-' % number) + b"\n")

    reading = ClaudeReading(at(path))
    for count, message in enumerate(reading):
        assert message.content == str(count)
    assert reading.cursor is not None
    assert len(json.dumps(reading.cursor)) < 4_000


# ── strangers' files ─────────────────────────────────────────────────────────────────────────────────

_STRANGERS = sorted((SHARED / "claude").glob("*.jsonl")) if SHARED.is_dir() else []


@pytest.mark.req("TOOL-03", "TOOL-04")
def test_real_files_of_strangers(tmp_path: Path) -> None:
    """Where the files are at hand; the corpus above holds every kind that they do."""
    for path in _STRANGERS:
        data = path.read_bytes()
        messages, reading = read(at(path))
        talk = thread(messages)

        assert reading.counts.damaged == reading.counts.unknown == {}
        assert len(talk) == sum(not message.aside for message in messages) > 100
        calls = [part.id for message in talk for part in message.parts_of("tool_call")]
        results = [part.call_id for message in talk for part in message.parts_of("tool_result")]
        assert sorted(calls) == sorted(results)
        assert {message.role for message in messages} >= {"user", "assistant", "tool"}
        assert reading.about.model.startswith("claude-")

        for cut in (data.find(b"\n", place) + 1 for place in range(0, len(data), len(data) // 5)):
            copy = tmp_path / f"{cut}" / path.name
            before, earlier = grown(copy, data[:cut])
            grow(copy, data)
            after, _ = read(at(copy), earlier.cursor)
            assert before + after == messages


def test_the_reading_is_the_protocols(tmp_path: Path) -> None:
    transcript = Transcript(tool="claude", key=KEY, path=a_whole_life().save(tmp_path).path, project="/elsewhere")
    reading = ClaudeReading(transcript)
    iterator = iter(reading)

    assert isinstance(next(iterator), Message)
    assert reading.cursor is None  # complete only at the end
    assert reading.about.project == "/elsewhere"
