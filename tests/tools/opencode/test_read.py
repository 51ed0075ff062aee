"""Reading OpenCode's database: every kind of record, and from a cursor only what is new."""

from __future__ import annotations

import time

import pytest
from tests.tools.opencode.corpus import START, Corpus, call, dump, image, step_start, text, thinking
from tests.tools.opencode.readings import reading, roles_and_texts

from cortext.model.message import Part
from cortext.model.threads import thread
from cortext.model.tokens import used
from cortext.model.turns import Turns
from cortext.tools.opencode.adapter import OpenCode

# ── messages ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-13", "SESS-001d")
def test_a_turn_with_thinking_text_and_a_call_is_read(tool: OpenCode, corpus: Corpus) -> None:
    asked = corpus.user("What is in note.txt? 答え 🦤")
    given = {"command": "cat note.txt"}
    looked = corpus.assistant(thinking("I should look."), "Let me look.", call("bash", given, "the heron\n"))
    answered = corpus.assistant("A heron.")

    messages, found = reading(tool)

    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    prompt, reply, result, answer = messages
    assert (prompt.id, prompt.content, prompt.parts) == (asked, "What is in note.txt? 答え 🦤", None)
    assert (reply.id, reply.content, reply.model, reply.tokens) == (looked, "Let me look.", "some/model-one", 5)
    assert reply.usage is not None
    assert reply.usage["input"] == 10
    assert reply.parts == [
        Part("thinking", "I should look."),
        Part("text", "Let me look."),
        Part("tool_call", id="call_1", name="bash", input=given),
    ]
    assert result.parts == [Part("tool_result", call_id="call_1", name="bash", output="the heron\n")]
    assert (result.content, result.text, result.id) == ("", "the heron\n", "prt_000005")
    assert (answer.id, answer.text, answer.timestamp) == (answered, "A heron.", "2026-11-06T21:20:03.000Z")
    assert (found.about.model, found.about.tools, found.about.title) == ("some/model-one", ["bash"], "A talk")
    assert (found.about.project, found.about.created_at) == ("/work/place", "2026-11-06T21:20:00.000Z")
    assert found.counts.skipped == {"step-start": 2, "step-finish": 2}
    assert (found.counts.unknown, found.counts.damaged) == ({}, {})


@pytest.mark.req("STORE-13")
def test_failed_missing_and_interrupted_results_are_read(tool: OpenCode, corpus: Corpus) -> None:
    corpus.assistant(
        call("bash", {}, identity="a", status="error", error="it broke"),
        call("bash", {}, identity="b", status="running"),
        call("bash", {}, identity="c", status="pending", raw=""),
        call("bash", {}, identity="d", status="error", error="x", metadata={"interrupted": True, "output": "half"}),
        call("odd", {}, identity="e", output={"not": "text"}),  # type: ignore[arg-type]
    )

    messages, _ = reading(tool)

    assert [part.id for part in messages[0].parts or ()] == ["a", "b", "c", "d", "e"]
    results = [part for message in messages[1:] for part in message.parts or ()]
    assert [(part.call_id, part.output, part.is_error) for part in results] == [
        ("a", "it broke", True),
        ("d", "half", True),
        ("e", '{"not":"text"}', False),
    ]


@pytest.mark.req("STORE-13")
def test_images_and_files_are_kept_by_reference(tool: OpenCode, corpus: Corpus) -> None:
    inline = "data:image/png;base64," + "A" * 200_000
    corpus.user("See", image(inline), image("file:///work/place/a.txt", "text/plain", "a.txt"))
    corpus.assistant(call("read", {}, "an image", attachments=[{**image(inline), "id": "prt_x"}]))

    messages, _ = reading(tool)

    assert messages[0].parts == [
        Part("text", "See"),
        Part("image", ref="ses_one#prt_000002/0", media_type="image/png", name="shot.png"),
        Part("file", ref="file:///work/place/a.txt", media_type="text/plain", name="a.txt"),
    ]
    assert (messages[2].parts or [])[1] == Part(
        "image", ref="ses_one#prt_000005/0", media_type="image/png", name="shot.png"
    )


@pytest.mark.req("TOOL-03")
def test_records_without_messages_are_counted(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Look at @a.txt", text("the file's contents", synthetic=True), {"type": "agent", "name": "plan"})
    corpus.user({"type": "compaction", "auto": True})
    corpus.assistant("We fixed the boat.", summary=True, mode="compaction")
    corpus.user(text("Continue if you have next steps", synthetic=True))
    corpus.assistant({"type": "patch", "hash": "0", "files": []}, {"type": "snapshot", "snapshot": "0"}, "Going on.")
    corpus.assistant({"type": "retry", "attempt": 1, "error": {}, "time": {"created": 1}})

    messages, found = reading(tool)

    said = [message for message in messages if not message.aside]
    assert roles_and_texts(said) == [("user", "Look at @a.txt"), ("assistant", "Going on.")]
    assert found.about.summary == "We fixed the boat."
    assert {name: count for name, count in found.counts.skipped.items() if not name.startswith("step")} == {
        "synthetic text": 2,
        "agent": 1,
        "compaction": 1,
        "compaction summary": 1,
        "patch": 1,
        "snapshot": 1,
        "retry": 1,
        "empty reply": 1,
    }


@pytest.mark.req("COST-01")
def test_what_was_paid_for_is_kept_with_its_price(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Fix the boat")
    cached = {"input": 0, "output": 0, "reasoning": 0, "cache": {"write": 0, "read": 900}}
    corpus.assistant("Done.", tokens=cached, cost=0.25)
    corpus.assistant("We fixed the boat.", summary=True, mode="compaction")

    messages, _ = reading(tool)

    calls = [used(message.usage) for message in messages if message.usage]
    assert [(call.tokens.total, call.cost) for call in calls if call] == [(900, 0.25), (15, None)]
    assert messages[-1].content == "We fixed the boat." and messages[-1].aside, "not part of the conversation"


def test_a_stopped_reply_is_partial(tool: OpenCode, corpus: Corpus) -> None:
    stopped = {"name": "MessageAbortedError", "data": {"message": "stopped"}}
    corpus.user("Go")
    corpus.assistant("I was about to", call("bash", {}, "out"), error=stopped, done=False)

    messages, _ = reading(tool)

    assert [(message.role, message.partial) for message in messages] == [
        ("user", False),
        ("assistant", True),
        ("tool", True),
    ]
    assert roles_and_texts(thread(messages)) == [("user", "Go")]


def test_several_rounds_in_one_record_are_several_messages(tool: OpenCode, corpus: Corpus) -> None:
    found = corpus.assistant(
        "First.", call("bash", {}, "one", identity="a"), step_start(), "Second.", call("bash", {}, "two", identity="b")
    )

    messages, _ = reading(tool)

    assert roles_and_texts(messages) == [
        ("assistant", "First."),
        ("tool", "one"),
        ("assistant", "Second."),
        ("tool", "two"),
    ]
    assert [message.id for message in messages if message.role == "assistant"] == [found, f"{found}.2"]


# ── commands and resume blocks ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("SESS-001d")
@pytest.mark.parametrize("by", ["plugin", "command file"])
def test_a_command_is_read_as_typed(tool: OpenCode, corpus: Corpus, by: str) -> None:
    typed = "<command-name>/workspace.brainstorm</command-name>\n<command-args>API design</command-args>\n\nThink."
    mark = {"metadata": {"cortext": {"command": "workspace.brainstorm", "arguments": "API design"}}}
    corpus.user(text("Think of API design.", **mark) if by == "plugin" else text(typed))
    corpus.user(text("Do it now.", metadata={"cortext": {"command": "mine", "arguments": ""}}), image("data:x"))

    messages, found = reading(tool)

    assert roles_and_texts(messages) == [("user", "/workspace.brainstorm API design"), ("user", "/mine")]
    assert (messages[1].parts or [])[1].type == "image"
    assert found.about.command == "/workspace.brainstorm"
    assert found.counts.skipped == {"command expansion": 2}


@pytest.mark.req("SESS-001d")
def test_a_resume_block_is_aside(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Prompt\n\n[RESUMED CONVERSATION]\n…\n[END RESUMED CONTEXT]")
    resumed = {"metadata": {"cortext": {"command": "workspace.resume", "arguments": "1"}}}
    corpus.user(text("Go on.", **resumed), text("[RESUMED CONVERSATION]", synthetic=True))
    corpus.user(text("About [RESUMED CONVERSATION]", metadata={"cortext": {"id": "m1"}}))

    messages, found = reading(tool)

    assert [(message.aside, message.extra) for message in messages] == [
        (True, {"resume_block": True}),
        (True, {"resume_block": True}),
        (False, None),
    ]
    assert messages[1].text == "/workspace.resume 1"
    assert found.about.command == ""


# ── side agents and undo ─────────────────────────────────────────────────────────────────────────────


def test_messages_of_side_agents_are_aside(tool: OpenCode, corpus: Corpus) -> None:
    corpus.session("ses_child", parent="ses_one", title="Child session - x")
    corpus.session("ses_grandchild", parent="ses_child")
    corpus.user("Ask somebody")
    corpus.user("Find the boat", session="ses_child")
    corpus.assistant("Here it is.", session="ses_grandchild")
    corpus.assistant("Somebody found it.")

    assert [item.key for item in tool.transcripts()] == ["ses_one"]
    messages, found = reading(tool)

    assert [(message.text, message.aside) for message in messages] == [
        ("Ask somebody", False),
        ("Find the boat", True),
        ("Here it is.", True),
        ("Somebody found it.", False),
    ]
    corpus.assistant("It sank.", session="ses_child")
    assert roles_and_texts(reading(tool, found.cursor)[0]) == [("assistant", "It sank.")]


def test_undone_messages_leave_the_conversation(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("One")
    first = corpus.assistant("Two")
    wrong = [corpus.user("Wrong"), corpus.assistant("Wrong too")]
    before, found = reading(tool)
    corpus.change("session", "ses_one", revert=dump({"messageID": wrong[0]}))

    undone, _ = reading(tool)
    assert [(message.id, message.aside) for message in undone[2:]] == [
        (f"{wrong[0]}.undone", True),
        (f"{wrong[1]}.undone", True),
    ]
    assert reading(tool, found.cursor)[0] == []

    for message in wrong:
        corpus.remove(message)
    corpus.change("session", "ses_one", revert=None)
    right = corpus.user("Right")
    after, _ = reading(tool, found.cursor)

    known = {message.id for message in before}
    history = [*before, *(message for message in after if message.id not in known)]
    assert [message.id for message in history][-1] == right
    assert history[-1].parent == first
    assert roles_and_texts(thread(history)) == [("user", "One"), ("assistant", "Two"), ("user", "Right")]


# ── the cursor ───────────────────────────────────────────────────────────────────────────────────────


def test_a_reply_that_is_being_written_is_left_for_later(
    tool: OpenCode, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: corpus.now / 1000 + 60)
    corpus.user("Go")
    reply = corpus.assistant("Half a", done=False)
    queued = corpus.user("And then?")

    messages, found = reading(tool)
    assert roles_and_texts(messages) == [("user", "Go")]

    info = {"role": "assistant", "time": {"created": START + 2000, "completed": START + 9000}}
    corpus.change("message", reply, data=dump(info))
    corpus.part(reply, text("sentence."))
    messages, _ = reading(tool, found.cursor)
    assert [(message.id, message.text) for message in messages] == [
        (reply, "Half a\n\nsentence."),
        (queued, "And then?"),
    ]


def test_an_abandoned_reply_gets_a_separate_id(tool: OpenCode, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: corpus.now / 1000 + 7200)
    corpus.user("Go")
    reply = corpus.assistant("Half a", done=False)

    messages, found = reading(tool)
    assert [(message.id, message.partial) for message in messages][1:] == [(f"{reply}.unfinished", True)]
    assert [message.id for message in reading(tool, found.cursor)[0]] == [f"{reply}.unfinished"]

    corpus.user("Again")
    messages, _ = reading(tool, found.cursor)
    assert [(message.id, message.partial) for message in messages] == [(reply, True), ("msg_000003", False)]


def test_transcripts_are_filtered_by_project(tool: OpenCode, corpus: Corpus) -> None:
    corpus.session("ses_two", directory="/elsewhere")

    assert sorted(item.key for item in tool.transcripts()) == ["ses_one", "ses_two"]
    assert [item.key for item in tool.transcripts("/elsewhere")] == ["ses_two"]
    assert tool.transcript_at(f"{tool.folders.database}#ses_two") is not None
    assert tool.transcript_at(f"{tool.folders.database}#ses_none") is None
    assert tool.transcript_at(tool.folders.database) is None  # it contains two


@pytest.mark.req("TRUE-03")
def test_the_contents_of_an_attached_file_are_kept_with_it(tool: OpenCode, corpus: Corpus) -> None:
    """As OpenCode 1.18.18 records `@a.txt`: the call and its output as synthetic texts, then the file."""
    contents = "<path>/work/place/a.txt</path>\n<content>\n1: the heron stands still\n</content>"
    corpus.user(
        text('Called the Read tool with the following input: {"filePath":"/work/place/a.txt"}', synthetic=True),
        text(contents, synthetic=True),
        image("file:///work/place/a.txt", "text/plain", "a.txt"),
        "Look at this",
    )

    messages, found = reading(tool)

    assert messages[0].content == "Look at this"
    (file,) = messages[0].parts_of("file")
    assert file.text == contents and found.about.notes == 1
    (turn,) = Turns(messages).turns
    assert contents in turn.texts[0].whole and "a.txt" in turn.texts[0].label
