"""Reading OpenCode's database: every kind of record, and only what is new by the cursor."""

from __future__ import annotations

import time

import pytest
from tests.tools.opencode.corpus import START, Corpus, call, dump, image, step_start, text, thinking
from tests.tools.opencode.readings import reading, told

from cortext.model.message import Part, thread
from cortext.tools.opencode.adapter import OpenCode

# ── what was said ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("STORE-13", "SESS-001d")
def test_a_turn_with_thinking_words_and_a_call(tool: OpenCode, corpus: Corpus) -> None:
    asked = corpus.user("What is in note.txt? 答え 🦤")
    given = {"command": "cat note.txt"}
    looked = corpus.assistant(thinking("I should look."), "Let me look.", call("bash", given, "the heron\n"))
    answered = corpus.assistant("A heron.")

    messages, made = reading(tool)

    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    prompt, words, result, answer = messages
    assert (prompt.id, prompt.content, prompt.parts) == (asked, "What is in note.txt? 答え 🦤", None)
    assert (words.id, words.content, words.model, words.tokens) == (looked, "Let me look.", "some/model-one", 5)
    assert words.usage is not None
    assert words.usage["input"] == 10
    assert words.parts == [
        Part("thinking", "I should look."),
        Part("text", "Let me look."),
        Part("tool_call", id="call_1", name="bash", input=given),
    ]
    assert result.parts == [Part("tool_result", call_id="call_1", name="bash", output="the heron\n")]
    assert (result.content, result.text, result.id) == ("", "the heron\n", "prt_000005")
    assert (answer.id, answer.text, answer.timestamp) == (answered, "A heron.", "2026-11-06T21:20:03.000Z")
    assert (made.about.model, made.about.tools, made.about.title) == ("some/model-one", ["bash"], "A talk")
    assert (made.about.project, made.about.created_at) == ("/work/place", "2026-11-06T21:20:00.000Z")
    assert made.counts.skipped == {"step-start": 2, "step-finish": 2}
    assert (made.counts.unknown, made.counts.damaged) == ({}, {})


@pytest.mark.req("STORE-13")
def test_results_that_failed_are_missing_or_were_interrupted(tool: OpenCode, corpus: Corpus) -> None:
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
def test_what_is_not_part_of_the_talk_is_counted(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Look at @a.txt", text("the file's contents", synthetic=True), {"type": "agent", "name": "plan"})
    corpus.user({"type": "compaction", "auto": True})
    corpus.assistant("We fixed the boat.", summary=True, mode="compaction")
    corpus.user(text("Continue if you have next steps", synthetic=True))
    corpus.assistant({"type": "patch", "hash": "0", "files": []}, {"type": "snapshot", "snapshot": "0"}, "Going on.")
    corpus.assistant({"type": "retry", "attempt": 1, "error": {}, "time": {"created": 1}})

    messages, made = reading(tool)

    assert told(messages) == [("user", "Look at @a.txt"), ("assistant", "Going on.")]
    assert made.about.summary == "We fixed the boat."
    assert {name: count for name, count in made.counts.skipped.items() if not name.startswith("step")} == {
        "synthetic text": 2,
        "agent": 1,
        "compaction": 1,
        "compaction summary": 1,
        "patch": 1,
        "snapshot": 1,
        "retry": 1,
        "reply without words": 1,
    }


def test_replies_that_failed_are_partial(tool: OpenCode, corpus: Corpus) -> None:
    stopped = {"name": "MessageAbortedError", "data": {"message": "stopped"}}
    corpus.user("Go")
    corpus.assistant("I was about to", call("bash", {}, "out"), error=stopped, done=False)

    messages, _ = reading(tool)

    assert [(message.role, message.partial) for message in messages] == [
        ("user", False),
        ("assistant", True),
        ("tool", True),
    ]
    assert told(thread(messages)) == [("user", "Go")]


def test_several_rounds_in_one_record_are_several_messages(tool: OpenCode, corpus: Corpus) -> None:
    made = corpus.assistant(
        "First.", call("bash", {}, "one", identity="a"), step_start(), "Second.", call("bash", {}, "two", identity="b")
    )

    messages, _ = reading(tool)

    assert told(messages) == [("assistant", "First."), ("tool", "one"), ("assistant", "Second."), ("tool", "two")]
    assert [message.id for message in messages if message.role == "assistant"] == [made, f"{made}.2"]


# ── commands and our own block ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("SESS-001d")
@pytest.mark.parametrize("by", ["plugin", "command file"])
def test_a_command_is_what_was_typed(tool: OpenCode, corpus: Corpus, by: str) -> None:
    typed = "<command-name>/workspace.brainstorm</command-name>\n<command-args>API design</command-args>\n\nThink."
    mark = {"metadata": {"cortext": {"command": "workspace.brainstorm", "arguments": "API design"}}}
    corpus.user(text("Think of API design.", **mark) if by == "plugin" else text(typed))
    corpus.user(text("Do it now.", metadata={"cortext": {"command": "mine", "arguments": ""}}), image("data:x"))

    messages, made = reading(tool)

    assert told(messages) == [("user", "/workspace.brainstorm API design"), ("user", "/mine")]
    assert (messages[1].parts or [])[1].type == "image"
    assert made.about.command == "/workspace.brainstorm"
    assert made.counts.skipped == {"command expansion": 2}


@pytest.mark.req("SESS-001d")
def test_our_own_block_is_no_word_of_the_user(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("Prompt\n\n[RESUMED CONVERSATION]\n…\n[END RESUMED CONTEXT]")
    resumed = {"metadata": {"cortext": {"command": "workspace.resume", "arguments": "1"}}}
    corpus.user(text("Go on.", **resumed), text("[RESUMED CONVERSATION]", synthetic=True))
    corpus.user(text("About [RESUMED CONVERSATION]", metadata={"cortext": {"id": "m1"}}))

    messages, made = reading(tool)

    assert [(message.aside, message.extra) for message in messages] == [
        (True, {"resume_block": True}),
        (True, {"resume_block": True}),
        (False, None),
    ]
    assert messages[1].text == "/workspace.resume 1"
    assert made.about.command == ""


# ── side agents and ways back ────────────────────────────────────────────────────────────────────────


def test_side_agents_are_read_beside_the_talk(tool: OpenCode, corpus: Corpus) -> None:
    corpus.session("ses_child", parent="ses_one", title="Child session - x")
    corpus.session("ses_grandchild", parent="ses_child")
    corpus.user("Ask somebody")
    corpus.user("Find the boat", session="ses_child")
    corpus.assistant("Here it is.", session="ses_grandchild")
    corpus.assistant("Somebody found it.")

    assert [item.key for item in tool.transcripts()] == ["ses_one"]
    messages, made = reading(tool)

    assert [(message.text, message.aside) for message in messages] == [
        ("Ask somebody", False),
        ("Find the boat", True),
        ("Here it is.", True),
        ("Somebody found it.", False),
    ]
    corpus.assistant("It sank.", session="ses_child")
    assert told(reading(tool, made.cursor)[0]) == [("assistant", "It sank.")]


def test_what_was_undone_and_replaced_leaves_the_talk(tool: OpenCode, corpus: Corpus) -> None:
    corpus.user("One")
    first = corpus.assistant("Two")
    wrong = [corpus.user("Wrong"), corpus.assistant("Wrong too")]
    before, made = reading(tool)
    corpus.change("session", "ses_one", revert=dump({"messageID": wrong[0]}))

    undone, _ = reading(tool)
    assert [(message.id, message.aside) for message in undone[2:]] == [
        (f"{wrong[0]}.undone", True),
        (f"{wrong[1]}.undone", True),
    ]
    assert reading(tool, made.cursor)[0] == []

    for message in wrong:
        corpus.remove(message)
    corpus.change("session", "ses_one", revert=None)
    right = corpus.user("Right")
    after, _ = reading(tool, made.cursor)

    known = {message.id for message in before}
    journal = [*before, *(message for message in after if message.id not in known)]
    assert [message.id for message in journal][-1] == right
    assert journal[-1].parent == first
    assert told(thread(journal)) == [("user", "One"), ("assistant", "Two"), ("user", "Right")]


# ── only what is new ─────────────────────────────────────────────────────────────────────────────────


def test_a_reply_that_is_being_written_waits(tool: OpenCode, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: corpus.now / 1000 + 60)
    corpus.user("Go")
    reply = corpus.assistant("Half a", done=False)
    queued = corpus.user("And then?")

    messages, made = reading(tool)
    assert told(messages) == [("user", "Go")]

    info = {"role": "assistant", "time": {"created": START + 2000, "completed": START + 9000}}
    corpus.change("message", reply, data=dump(info))
    corpus.part(reply, text("sentence."))
    messages, _ = reading(tool, made.cursor)
    assert [(message.id, message.text) for message in messages] == [
        (reply, "Half a\n\nsentence."),
        (queued, "And then?"),
    ]


def test_a_reply_that_nobody_finishes_is_given_apart(
    tool: OpenCode, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: corpus.now / 1000 + 7200)
    corpus.user("Go")
    reply = corpus.assistant("Half a", done=False)

    messages, made = reading(tool)
    assert [(message.id, message.partial) for message in messages][1:] == [(f"{reply}.unfinished", True)]
    assert [message.id for message in reading(tool, made.cursor)[0]] == [f"{reply}.unfinished"]

    corpus.user("Again")
    messages, _ = reading(tool, made.cursor)
    assert [(message.id, message.partial) for message in messages] == [(reply, True), ("msg_000003", False)]


def test_transcripts_of_one_project(tool: OpenCode, corpus: Corpus) -> None:
    corpus.session("ses_two", directory="/elsewhere")

    assert sorted(item.key for item in tool.transcripts()) == ["ses_one", "ses_two"]
    assert [item.key for item in tool.transcripts("/elsewhere")] == ["ses_two"]
    assert tool.transcript_at(f"{tool.folders.database}#ses_two") is not None
    assert tool.transcript_at(f"{tool.folders.database}#ses_none") is None
    assert tool.transcript_at(tool.folders.database) is None  # there are two in it
