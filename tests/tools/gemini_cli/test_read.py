"""Reading transcripts: every kind of record, each message once, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.tools.gemini_cli.corpus import (
    CONTEXT,
    EVERYDAY,
    KEY,
    Chat,
    Json,
    answer,
    compact,
    everyday,
    read,
    resumed,
    texts,
    uuid,
)

from cortext.model.message import IMAGE, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.model.threads import thread
from cortext.tools.base import About, Counts
from cortext.tools.gemini_cli.conversation import Conversation
from cortext.tools.gemini_cli.records import record_decoder
from cortext.tools.gemini_cli.withheld import COMMANDS, REMOVED, SHORTENED, withheld

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "transcripts" / "gemini"


def plain(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


@pytest.mark.req("SESS-001d", "STORE-13", "TOOL-03")
def test_all_text_calls_and_results_of_a_conversation_are_read(tmp_path: Path) -> None:
    messages, reading = read(everyday().save(tmp_path))

    assert plain(messages) == list(EVERYDAY)
    answered, calls, succeeded, failed = messages[1:5]
    assert answered.parts == [Part(THINKING, "I should read the note first.")]
    assert (answered.model, answered.tokens) == ("gemini-3.8-flash", 5)
    assert answered.usage is not None and answered.usage["total"] == 15
    assert [(part.type, part.name, part.input) for part in calls.parts or ()] == [
        (TOOL_CALL, "run_shell_command", {"command": "cat note.txt"}),
        (TOOL_CALL, "read_file", {"path": "boat.txt"}),
    ]
    for result, call, is_error in zip((succeeded, failed), calls.parts or (), (False, True), strict=True):
        (part,) = result.parts_of(TOOL_RESULT)
        assert (part.type, part.call_id, part.name, part.is_error) == (TOOL_RESULT, call.id, call.name, is_error)
    assert [message.id for message in messages[:4]] == [uuid(1), uuid(4), f"{uuid(4)}/calls", f"{uuid(4)}/result/0"]
    assert len({message.id for message in messages}) == len(messages)
    assert all(message.timestamp.startswith("2026-11-15T02:0") for message in messages)
    assert (reading.about.model, reading.about.tools) == ("gemini-3.8-flash", ["run_shell_command", "read_file"])
    assert reading.about.created_at == "2026-11-15T02:00:00.469Z"
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})
    assert reading.counts.skipped == {
        "metadata": 7,
        "repeated history": 1,
        "session context": 1,
        "repeated record": 1,
        "repeated tool result": 2,
    }


@pytest.mark.req("STORE-13")
def test_the_token_count_is_kept_for_an_answer_of_calls_alone(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.model("", [chat.call("ls", "a.txt")])

    messages, _ = read(chat.save(tmp_path))

    assert [(message.role, message.tokens) for message in messages] == [("assistant", 5), ("tool", None)]


@pytest.mark.req("TOOL-03")
@pytest.mark.parametrize("same_minute", [True, False])
def test_a_resumed_session_returns_each_message_once(tmp_path: Path, same_minute: bool) -> None:
    chat = everyday()
    records = [json.loads(line) for line in chat.lines if line.startswith(b'{"id":')]
    last = {record["id"]: record for record in records}
    resumed(chat, list(last.values()), same_minute=same_minute)
    chat.user("Once more?")
    chat.model("Once more.")

    messages, reading = read(chat.save(tmp_path))

    before, _ = read(everyday().save(tmp_path))
    assert [message.id for message in messages[:-2]] == [message.id for message in before]
    assert texts(messages)[-2:] == ["Once more?", "Once more."]
    assert not any(message.parent for message in messages)
    assert thread(messages) == messages
    assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})


def test_results_stored_with_every_call_are_matched_by_id(tmp_path: Path) -> None:
    """After a resume, Gemini CLI stores the results of all parallel calls with each of them."""
    chat = Chat().begin()
    one, two = chat.call("ls", "one"), chat.call("ls", "two")
    both = [*one["result"], *two["result"]]
    chat.put(chat.record("gemini", "", toolCalls=[{**one, "result": both}, {**two, "result": both}]))

    messages, _ = read(chat.save(tmp_path))

    assert plain(messages) == [("assistant", ""), ("tool", "one"), ("tool", "two")]


@pytest.mark.req("SESS-001d")
def test_a_command_is_read_as_typed_not_as_expanded(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.user("You are a brainstorming partner …", displayContent=[{"text": "/workspace.brainstorm API design"}])
    chat.model("Let us begin.")
    expanded = "Plan: x\n\n<!-- cortext:command workspace.plan -->the\nmove<!-- cortext:end -->\n"
    chat.user(expanded)

    messages, reading = read(chat.save(tmp_path))

    assert texts(messages) == ["/workspace.brainstorm API design", "Let us begin.", "/workspace.plan the\nmove"]
    assert reading.about.command == "/workspace.brainstorm"


def test_the_resume_block_is_marked_and_aside(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.user("Text of the command\n\n[RESUMED CONVERSATION]\nsummary\n[END RESUMED CONTEXT]")
    chat.model("I see.")
    block = "<hook_context>[RESUMED CONVERSATION] again</hook_context>"
    record = chat.record("user", [{"text": "What now?"}, {"text": block}], displayContent=[{"text": "What now?"}])
    chat.put(record)
    chat.user("expanded [RESUMED CONVERSATION]", displayContent=[{"text": "/workspace.resume 001"}])

    messages, _ = read(chat.save(tmp_path))

    assert [(message.content, message.aside) for message in messages] == [
        ("Text of the command\n\n[RESUMED CONVERSATION]\nsummary\n[END RESUMED CONTEXT]", True),
        ("I see.", False),
        ("What now?", False),
        (block, True),
        ("/workspace.resume 001", False),
        ("expanded [RESUMED CONVERSATION]", True),
    ]
    assert all((message.extra == {"resume_block": True}) == message.aside for message in messages)
    assert len({message.id for message in messages}) == len(messages)
    assert texts(thread(messages)) == ["I see.", "What now?", "/workspace.resume 001"]


def test_contexts_and_generated_messages_are_skipped(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.put(chat.record("user", [{"text": "hello"}, {"text": "<hook_context>secret</hook_context>"}]))
    chat.user("System: Please continue.")
    chat.user("Here is the user's editor context as a JSON object. …")
    chat.put(chat.record("gemini", "[The previous response was interrupted before it completed.]"))
    chat.put(chat.record("info", "Update available")).put(chat.record("error", "quota")).put(
        chat.record("warning", "hm")
    )

    messages, reading = read(chat.save(tmp_path))

    assert texts(messages) == ["hello"]
    kinds = ("nudge to continue", "editor context", "placeholder", "info", "error", "warning", "session context")
    assert [reading.counts.skipped.get(kind) for kind in kinds] == [1] * 7


def test_a_referenced_file_is_part_of_the_message(tmp_path: Path) -> None:
    chat = Chat().begin()
    parts = ["see @note.txt", "\n--- Content from referenced files ---", "\nContent from @note.txt:\n", "the heron"]
    chat.put(chat.record("user", [{"text": text} for text in parts], displayContent=[{"text": "see @note.txt"}]))

    messages, _ = read(chat.save(tmp_path))

    assert texts(messages) == ["".join(parts)]


@pytest.mark.req("STORE-13")
def test_images_are_kept_by_reference(tmp_path: Path) -> None:
    chat = Chat().begin()
    data = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo" * 1000}}
    chat.put(chat.record("user", [{"text": "What is this?"}, data, {"fileData": {"fileUri": "gs://a/b.pdf"}}]))
    call = chat.call("read_file", None, path="a.png")
    response = {"id": call["id"], "name": "read_file", "response": {"output": "read"}, "parts": [data]}
    chat.model("", [{**call, "result": [{"functionResponse": response}]}])

    messages, _ = read(chat.save(tmp_path))

    (image,), (file,) = messages[0].parts_of(IMAGE)[:1], (messages[0].parts or [])[1:]
    assert (image.type, image.ref, image.media_type) == (IMAGE, f"{KEY}#{uuid(1)}/0", "image/png")
    assert file.ref == "gs://a/b.pdf"
    assert [part.type for part in messages[2].parts or ()] == [TOOL_RESULT, IMAGE]
    assert "iVBORw0KGgo" not in repr(messages)


def test_all_forms_of_content_and_results_are_read(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.put(chat.record("user", "plain text"))
    chat.put(chat.record("user", {"text": "one part"}))
    chat.put(chat.record("user", ["a", {"text": "b"}]))
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    chat.put(chat.record("gemini", [{"text": "thinking", "thought": True}, {"text": "said"}, code]))
    for result in (
        "text",
        [{"text": "part"}],
        {"functionResponse": {"response": {"error": "bad"}}},
        [answer("", "f", "x")],
    ):
        chat.put(chat.record("gemini", "", toolCalls=[{"name": "f", "args": {}, "result": result}]))
    mixed = {"id": "q", "name": "f", "result": [{"functionResponse": {"id": "q", "response": {"a": 1, "output": "y"}}}]}
    chat.put(chat.record("gemini", "", toolCalls=[mixed]))

    messages, reading = read(chat.save(tmp_path))

    assert [message.text for message in messages if message.role != "tool" and message.text] == [
        "plain text",
        "one part",
        "ab",
        "said\n\n1+1",
    ]
    results = [part for message in messages for part in message.parts_of(TOOL_RESULT)]
    assert [part.output for part in results] == ["text", "part", "bad", "x", '{"a":1,"output":"y"}']
    assert [part.is_error for part in results] == [False, False, True, False, False]
    calls = [part.id for message in messages for part in message.parts_of(TOOL_CALL)]
    assert [part.call_id for part in results] == calls
    assert not reading.counts.damaged


def test_a_result_in_a_later_record_is_read(tmp_path: Path) -> None:
    chat = Chat().begin()
    call = chat.call("ls", None)
    chat.put(chat.record("gemini", "", toolCalls=[call]))
    chat.put(chat.record("user", [answer(call["id"], "ls", "found")]))

    messages, _ = read(chat.save(tmp_path))

    assert plain(messages) == [("assistant", ""), ("tool", "found")]


# ── branches ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_rewind_starts_a_branch(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.user("one")
    chat.model("first")
    is_error = chat.user("wrong way")
    chat.model("oh", [chat.call("ls", "x")])
    chat.put({"$rewindTo": is_error["id"]})
    chat.user("right way")
    chat.model("good")

    messages, reading = read(chat.save(tmp_path))

    assert texts(messages) == ["one", "first", "wrong way", "oh", "x", "right way", "good"]
    assert texts(thread(messages)) == ["one", "first", "right way", "good"]
    assert reading.counts.skipped["rewind"] == 1


def test_a_rewind_before_the_first_message_starts_over(tmp_path: Path) -> None:
    chat = Chat().begin()
    is_error = chat.user("wrong from the start")
    chat.model("oh")
    chat.put({"$rewindTo": is_error["id"]})
    chat.user("right way")
    chat.model("good")

    messages, _ = read(chat.save(tmp_path))

    assert texts(messages) == ["wrong from the start", "oh", "right way", "good"]
    assert texts(thread(messages)) == ["right way", "good"]


def test_a_shorter_history_removes_a_cancelled_turn(tmp_path: Path) -> None:
    chat = Chat().begin()
    one = chat.user("one")
    first = chat.model("first")
    chat.user("cancelled")
    chat.replace(chat.context(), one, first)
    chat.user("two")

    messages, _ = read(chat.save(tmp_path))

    assert texts(messages) == ["one", "first", "cancelled", "two"]
    assert texts(thread(messages)) == ["one", "first", "two"]


def test_a_repeated_id_with_other_text_replaces_the_first(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.user("one")
    record = chat.record("gemini", "draft", model="m")
    chat.put(record).put({**record, "content": "final"})
    chat.user("two")
    chat.put({**record, "content": "too late"})

    messages, _ = read(chat.save(tmp_path))

    assert texts(messages) == ["one", "draft", "final", "two", "too late"]
    assert texts(thread(messages)) == ["one", "final", "two"]
    assert [message.id for message in messages if message.text in ("draft", "final")] == [
        record["id"],
        f"{record['id']}~1",
    ]


def test_compression_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """Gemini CLI keeps a summary and the newest messages, under new ids."""
    chat = Chat().begin()
    chat.user("long ago")
    chat.model("yes, long ago", [chat.call("ls", "a.txt")])
    kept = chat.user("not so long ago")
    answered = chat.model("  indeed <!-- hm --> not \n")
    summary = "<state_snapshot>\nthe goal\n</state_snapshot>"
    copies = [
        chat.record("user", [{"text": summary}]),
        chat.record("gemini", [{"text": "Got it. Thanks for the additional context!"}]),
        chat.record("user", kept["content"]),
        chat.record("gemini", [{"text": "indeed  not"}, {"text": "a thought", "thought": True}]),
    ]
    chat.replace(chat.context(), *copies)
    chat.user("and now")

    messages, reading = read(chat.save(tmp_path))

    assert texts(messages) == ["long ago", "yes, long ago", "a.txt", "not so long ago", answered["content"], "and now"]
    assert thread(messages) == messages
    assert reading.about.summary == summary
    assert reading.counts.skipped["repeated message"] == 2


@pytest.mark.parametrize("resumed_with", ["", "the same ids", "new ids"])
def test_what_follows_a_compression_of_everything_follows_the_last_message(tmp_path: Path, resumed_with: str) -> None:
    """If the last turn is long, Gemini CLI keeps nothing but the summary."""
    chat = Chat().begin()
    chat.user("long ago")
    chat.model("yes, long ago")

    def summary() -> list[Json]:
        texts = ("<state_snapshot>the goal</state_snapshot>", "Got it. Thanks for the additional context!")
        return [chat.record(kind, [{"text": text}]) for kind, text in zip(("user", "gemini"), texts, strict=True)]

    first = summary()
    chat.replace(chat.context(), *first)
    if resumed_with:
        chat.opening().begin().replace(chat.context(), *(first if resumed_with == "the same ids" else summary()))
    chat.user("and now")

    messages, _ = read(chat.save(tmp_path))

    assert texts(thread(messages)) == ["long ago", "yes, long ago", "and now"]


def test_a_summary_with_its_scratchpad_is_no_message_of_the_user(tmp_path: Path) -> None:
    """Gemini CLI has the model think in a scratchpad before it writes the summary, and stores both."""
    chat = Chat().begin()
    chat.user("long ago")
    summary = "<state_snapshot>\nthe goal\n</state_snapshot>"
    written = chat.record("user", [{"text": f"<scratchpad>\nhm\n</scratchpad>\n\n{summary}"}])
    chat.replace(chat.context(), written)
    chat.user("<scratchpad> is what I want to talk about")

    messages, reading = read(chat.save(tmp_path))

    assert texts(messages) == ["long ago", "<scratchpad> is what I want to talk about"]
    assert reading.about.summary == summary


def test_what_a_compressed_session_withholds_is_unknown(tmp_path: Path) -> None:
    chat = Chat().begin()
    asked = chat.user("long ago")
    assert withheld(str(chat.save(tmp_path))) is not None

    chat.replace(chat.context(), chat.record("user", [{"text": "<state_snapshot>the goal</state_snapshot>"}]))
    chat.user("and now")
    assert withheld(str(chat.save(tmp_path))) is None

    chat.replace(chat.context(), asked)
    assert withheld(str(chat.save(tmp_path))) is not None, "the summary is gone again"


def test_a_masked_and_rewritten_history_is_recognised(tmp_path: Path) -> None:
    """To mask long results, Gemini CLI appends all messages once more, and then the list of them."""
    chat = Chat().begin()
    first = chat.user("first words", displayContent=[{"text": "/workspace.plan first"}])
    call = chat.call("ls", "a long result")
    said = chat.model("Looking.", [call])
    chat.model("Done.")
    again = [
        chat.record("user", [{"text": CONTEXT}, *first["content"]]),
        chat.record(
            "gemini", [{"text": said["content"]}, {"functionCall": {"id": call["id"], "name": "ls", "args": {}}}]
        ),
        chat.record("user", [answer(call["id"], "ls", "<tool_output_masked>")]),
        chat.record("gemini", [{"text": "Done."}]),
    ]
    for record in again:
        chat.put(record).time()
    chat.replace(*again)
    chat.user("next")

    messages, reading = read(chat.save(tmp_path))

    assert texts(messages) == ["/workspace.plan first", "Looking.", "a long result", "Done.", "next"]
    assert thread(messages) == messages
    assert not reading.counts.damaged


def test_a_history_loaded_from_a_checkpoint_is_new(tmp_path: Path) -> None:
    chat = Chat().begin()
    chat.user("mine")
    loaded = [chat.record("user", [{"text": "from a checkpoint"}]), chat.record("gemini", [{"text": "its answer"}])]
    chat.replace(chat.context(), *loaded)
    chat.user("next")

    messages, _ = read(chat.save(tmp_path))

    assert texts(messages) == ["mine", "from a checkpoint", "its answer", "next"]


@pytest.mark.req("STORE-13")
def test_messages_of_side_agents_are_aside(tmp_path: Path) -> None:
    agent = Chat("agent-1").begin()
    agent.lines[0] = agent.lines[0].replace(b'"kind":"main"', b'"kind":"subagent"')
    agent.user("look for herons")
    agent.model("three herons", [agent.call("ls", "heron.txt")])
    path = tmp_path / "agent-1.jsonl"
    path.write_bytes(agent.data)

    messages, reading = read(everyday().save(tmp_path), agents=[str(path)])

    beside = [message for message in messages if message.aside]
    assert texts(beside) == ["look for herons", "three herons", "heron.txt"]
    assert texts(thread(messages))[-1] == "Now we go."
    agent.user("more")
    path.write_bytes(agent.data)
    more, _ = read(tmp_path / f"session-2026-11-15T02-10-{KEY[:8]}.jsonl", reading.cursor, [str(path)])
    assert texts(more) == ["more"] and more[0].aside


def test_the_fast_path_returns_what_the_general_one_does(tmp_path: Path) -> None:
    chat = Chat().begin()
    lines = everyday().lines[2:]
    plain = chat.record(
        "gemini", "a", toolCalls=[chat.call("f", "x"), chat.call("f", None), chat.call("g", "y", "error")]
    )
    unusual = [
        plain,
        chat.record("gemini", ""),
        chat.record("gemini", "", thoughts=[{"subject": "S"}, {}, {"description": "D"}], tokens={"output": "many"}),
        chat.record("gemini", "", toolCalls=[{"name": "f", "result": "text"}], tokens={"output": 3}),
        chat.record("gemini", "[The previous response was interrupted before it completed.]"),
        chat.record("gemini", "b", timestamp="2026-11-15T99:99:99.999Z", toolCalls=[{"id": "q", "status": "success"}]),
        chat.record("gemini", "c", toolCalls=[{"id": "r", "status": "success", "result": [{"text": "only words"}]}]),
        {**plain, "content": "other words"},
    ]
    records = [record_decoder.decode(line) for line in [*lines, *map(compact, unusual)]]
    found: list[list[Message]] = []
    abouts = []
    for remember_all in (False, True):
        about, out = About(), list[Message]()
        conversation = Conversation(KEY, about, Counts(), aside=False, remember_all=remember_all)
        for record in records:
            conversation.add(msgspec.structs.replace(record), out)
        found.append(out)
        abouts.append(about)

    assert found[0] == found[1] and len(found[0]) > 15
    assert abouts[0] == abouts[1]


@pytest.mark.req("TOOL-03")
def test_transcripts_of_other_users_are_read_completely(tmp_path: Path) -> None:
    files = sorted(SHARED.glob("*.json*")) if SHARED.is_dir() else [everyday().save(tmp_path)]
    for path in files:
        messages, reading = read(path)
        assert len(messages) > 5
        assert (reading.counts.unknown, reading.counts.damaged) == ({}, {})
        assert len({message.id for message in messages}) == len(messages)
        calls = {part.id for message in messages for part in message.parts_of(TOOL_CALL)}
        assert all(part.call_id in calls for message in messages for part in message.parts_of(TOOL_RESULT))
        assert {message.role for message in messages} == {"user", "assistant", "tool"}


@pytest.mark.req("FLOW-06", "TRUE-03")
def test_a_message_that_a_rewritten_list_lacks_is_withheld(tmp_path: Path) -> None:
    chat = Chat().begin()
    asked, dropped = chat.user("first words"), chat.user("/etc/hosts is a path")
    answered = chat.model("So it is.")
    chat.replace(chat.context(), asked, answered)
    chat.user("next")

    found = withheld(str(chat.save(tmp_path)))

    assert found is not None and dropped["id"] in found.messages[COMMANDS]
    chat.replace(chat.context(), answered)
    found = withheld(str(chat.save(tmp_path)))
    assert found is not None and asked["id"] in found.messages[REMOVED]


@pytest.mark.req("FLOW-06", "TRUE-03")
@pytest.mark.parametrize(
    ("tool", "text", "shortened"),
    [
        ("read_file", "x" * 130_000, 2),
        ("read_file", "x" * 90_000, 0),  # 22,500 tokens each: two are within the 50,000 that stay
        ("run_shell_command", "a line\n" * 18_000, 2),
        ("run_shell_command", "x" * 130_000, 0),  # its excerpt has whole lines
        ("activate_skill", "x" * 130_000, 0),
    ],
)
def test_long_old_results_are_counted_as_gemini_cli_shortens_them(
    tmp_path: Path, tool: str, text: str, shortened: int
) -> None:
    """The newest results within 50,000 tokens stay, and all of them unless the others have 30,000."""
    chat = Chat().begin()
    for _ in range(3):
        chat.user("Read it.")
        chat.put(chat.record("gemini", "", toolCalls=[chat.call(tool, text)]))
    chat.model("Done.")

    found = withheld(str(chat.save(tmp_path)))

    assert found is not None and found.changed.get(SHORTENED, 0) == shortened
