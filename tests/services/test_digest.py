"""The digest of a conversation: what a successor reads, for small conversations in full, and what always holds."""

from __future__ import annotations

import json
import re
from itertools import count
from textwrap import dedent
from typing import Any

import pytest
from bench.packet import violations
from hypothesis import given
from hypothesis import strategies as st

from cortext.model import tokens
from cortext.model.message import Message, Part
from cortext.services.digest.asks import decisions, open_steps, standing
from cortext.services.digest.calls import calls_in, simple_commands, status_of
from cortext.services.digest.digest import digest
from cortext.services.digest.files_and_names import ranked, used_files
from cortext.services.text.decisions import sounds_decided, states_decision
from cortext.testing.table import every_row

pytestmark = pytest.mark.req("SESS-003c", "TOOL-11")
_ids = count()


def user(text: str) -> Message:
    return Message(role="user", content=text)


def model(text: str) -> Message:
    return Message(role="assistant", content=text)


def called(tool: str, fields: Any, output: str = "", *, failed: bool = False) -> list[Message]:
    """Return a tool call and its result."""
    name = f"call_{next(_ids)}"
    return [
        Message(role="assistant", parts=[Part("tool_call", id=name, name=tool, input=fields)]),
        Message(role="tool", parts=[Part("tool_result", call_id=name, name=tool, output=output, is_error=failed)]),
    ]


def text(messages: list[Message], *, budget: int = 2_000, known: str = "") -> str:
    return digest(messages, budget=budget, known=known)


# ── as it reads ──────────────────────────────────────────────────────────────────────────────────────


def test_a_small_conversation_as_a_successor_reads_it() -> None:
    messages = [
        user("Rename the logo file to heron.svg."),
        model("Done."),
        user("The client must retry when the server is busy. Never retry a POST. Let's use three tries."),
        *called("Read", {"file_path": "/home/ann/pond/src/client.py"}, "def fetch_page(url):\n    ..."),
        *called("Read", {"file_path": "/home/ann/pond/src/errors.py"}, "class ServerBusy(Exception): ..."),
        *called(
            "Edit",
            {"file_path": "/home/ann/pond/src/client.py", "old_string": "fetch_page", "new_string": "with_retry"},
        ),
        *called("Write", {"file_path": "/home/ann/pond/tests/test_client.py"}, "File created successfully"),
        model("The root cause was that fetch_page swallowed ServerBusy. Now let's run the tests."),
        *called("Bash", {"command": "cd /home/ann/pond && pytest -q 2>&1 | tail -5"}, "Exit code 1", failed=True),
        *called("TodoWrite", {"todos": [{"content": "Log each retry", "status": "pending"}]}),
        model("One test fails. Shall I raise the timeout?"),
        user("yes"),
    ]
    assert text(messages) == dedent("""\
        The user asked last: yes (in answer to "Shall I raise the timeout?")
        Done about it: nothing yet
        Still open:
        - Log each retry
        This task began with: The client must retry when the server is busy. Never retry a POST. Let's use three tries.
        Decided:
        - The root cause was that fetch_page swallowed ServerBusy.
        Files, the last used first (in /home/ann/pond):
        - tests/test_client.py (created)
        - src/client.py (changed): fetch_page, with_retry
        - src/errors.py (read): ServerBusy
        Commands, the likeliest first:
        - `pytest -q` exit 1""")


def test_what_was_done_about_the_last_ask_comes_right_after_it() -> None:
    messages = [
        user("Add a retry to the client, please, and run the tests."),
        *called("replace", {"file_path": "client.py", "new_string": "retry_count = 3"}),
        *called("run_shell_command", {"command": "make test"}, "Output: ok\nExit Code: 2"),
        model("The tests fail because the pond is empty."),
    ]
    assert text(messages).splitlines()[:3] == [
        "The user asked last: Add a retry to the client, please, and run the tests.",
        "Done about it: changed client.py; ran 1 command, the last `make test` exit 2",
        "The model said last: The tests fail because the pond is empty.",
    ]


def test_the_task_is_the_current_one_and_not_one_that_was_done_long_ago() -> None:
    done = [
        user("Draw a logo with a heron for the website header."),
        *called("Write", {"file_path": "logo.svg"}),
        model("Here it is."),
    ]
    unrelated = [
        message for number in range(4) for message in (user(f"What is the time in city {number}?"), model("No."))
    ]
    current = [
        user("Import the bird ringing records from the CSV exports."),
        *called("Edit", {"file_path": "importer.py"}),
        model("Imported."),
        user("The importer drops records with two rings."),
        *called("Edit", {"file_path": "importer.py"}),
        model("Fixed."),
    ]
    lines = text([*done, *unrelated, *current]).splitlines()
    assert lines[0] == "The user asked last: The importer drops records with two rings."
    assert "This task began with: Import the bird ringing records from the CSV exports." in lines


def test_what_tools_write_in_the_users_name_is_no_ask() -> None:
    messages = [
        user("Count the herons at the pond."),
        model("Counting."),
        user("[Request interrupted by user for tool use]"),
        user("<task-notification>\n<task-id>b1</task-id>\n</task-notification>"),
    ]
    assert text(messages).startswith("The user asked last: Count the herons at the pond.\n")


def test_what_the_reader_has_is_not_repeated_except_the_last_ask() -> None:
    messages = [
        user("Rename fetch_page in client.py."),
        *called("Read", {"file_path": "src/client.py"}, "def fetch_page(): ...\ndef parse_feed(): ..."),
        *called("Bash", {"command": "make lint"}, "ok"),
        model("Renamed."),
    ]
    whole, rest = text(messages), text(messages, known="src/client.py has parse_feed. `make lint` was run. Renamed.")
    assert "parse_feed" in whole and "- src/client.py (read)" in whole and "The model said last" in whole
    assert rest == "\n".join(
        [
            "The user asked last: Rename fetch_page in client.py.",
            "Done about it: ran 1 command, the last `make lint` ok",
        ]
    )


@pytest.mark.parametrize("known", ["src/config.json", "src/config.js.orig", "lib/src/config.js", "src/config.jsx"])
def test_a_file_is_not_hidden_by_one_with_a_longer_name(known: str) -> None:
    messages = [user("Read it."), *called("Read", {"file_path": "src/config.js"}, "x"), model("Read.")]
    assert "- src/config.js (read)" in text(messages, known=f"Earlier, {known} was read.")
    assert "- src/config.js (read)" not in text(messages, known="Earlier, it was src/config.js.")


def test_an_empty_conversation_has_no_digest() -> None:
    assert text([]) == ""


# ── files and commands, in every tool's words ────────────────────────────────────────────────────────

PATCH = (
    "*** Begin Patch\n*** Add File: new.py\n+x\n*** Update File: old.py\n@@\n*** Delete File: gone.py\n*** End Patch"
)


@every_row(
    ("tool", "fields", "states"),
    [
        ("Read", {"file_path": "a.py"}, {"a.py": "read"}),
        ("Edit", {"file_path": "a.py"}, {"a.py": "changed"}),
        ("NotebookEdit", {"notebook_path": "a.ipynb"}, {"a.ipynb": "changed"}),
        ("read_file", {"absolute_path": "/w/a.py"}, {"/w/a.py": "read"}),
        ("read_many_files", {"paths": ["a.py", "b.py"]}, {"a.py": "read", "b.py": "read"}),
        ("write_file", {"file_path": "a.py"}, {"a.py": "changed"}),
        ("create_new_file", {"filepath": "a.py"}, {"a.py": "created"}),
        ("edit", {"filePath": "a.py"}, {"a.py": "changed"}),
        ("delete_file", {"target_file": "a.py"}, {"a.py": "deleted"}),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, {"a.py": "read"}),
        ("str_replace_editor", {"command": "create", "path": "a.py"}, {"a.py": "created"}),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, {"a.py": "changed"}),
        ("apply_patch", {"input": PATCH}, {"new.py": "created", "old.py": "changed", "gone.py": "deleted"}),
        ("apply_patch", PATCH, {"new.py": "created", "old.py": "changed", "gone.py": "deleted"}),
        ("shell", {"command": ["bash", "-lc", "sed -n 1,80p src/a.py"]}, {"src/a.py": "read"}),
        ("exec_command", {"cmd": "git rm old/a.py && cat b.md"}, {"old/a.py": "deleted", "b.md": "read"}),
        ("bash", {"command": "git log main..HEAD && curl https://example.com/x"}, {}),
        ("Grep", {"pattern": "x", "path": "src"}, {}),
        ("Grep", {"pattern": "x", "path": "src/a.py"}, {"src/a.py": "read"}),
    ],
)
def test_a_file_has_the_state_that_the_tool_left_it_in(tool: str, fields: Any, states: dict[str, str]) -> None:
    assert {file.path: file.state for file in used_files(calls_in(called(tool, fields)))} == states


def test_a_file_is_listed_once_with_its_last_known_state() -> None:
    calls = calls_in(
        [
            *called("Write", {"file_path": "/w/pond/a.py"}, "File created successfully at: /w/pond/a.py"),
            *called("Edit", {"file_path": "/w/pond/a.py"}),
            *called("Bash", {"command": "cat pond/a.py"}),
            *called("Edit", {"file_path": "/w/pond/b.py"}, "String not found", failed=True),
            *called("Read", {"file_path": "/w/pond/c.py"}, "no such file", failed=True),
            *called("Edit", {"file_path": "/w/pond/d.py"}),
            *called("Bash", {"command": "rm pond/d.py"}),
        ]
    )
    assert [(file.path, file.state, file.times) for file in used_files(calls)] == [
        ("/w/pond/d.py", "deleted", 2),
        ("/w/pond/b.py", "read", 1),
        ("/w/pond/a.py", "created", 3),
    ]


@every_row(
    ("output", "failed", "status"),
    [
        ("3 passed", False, "ok"),
        ("#!/bin/sh\ntest -e x || exit 1\n# exit code 2: no such file", False, "ok"),
        ("Exit code 1\nboom", True, "exit 1"),
        ("boom\nExit Code: 2", False, "exit 2"),
        ("boom\n<shellId: 0 completed with exit code 3>", False, "exit 3"),
        ("Process exited with code 101\nOutput: boom", False, "exit 101"),
        ('{"output":"","metadata":{"exit_code":127}}', False, "exit 127"),
        ("Exit code: 0\nfine", False, "ok"),
        ("permission denied", True, "failed"),
    ],
)
def test_the_exit_status_is_read_from_every_tools_answer(output: str, failed: bool, status: str) -> None:
    (call,) = calls_in(called("Bash", {"command": "make"}, output, failed=failed))
    assert status_of(call) == status


def test_a_shell_line_is_shown_as_its_simple_commands() -> None:
    line = "cd /w && git add a.py; git commit -m \"$(cat <<'EOF'\na && b\nEOF\n)\""
    assert simple_commands(line) == ["cd /w", "git add a.py", "git commit -m …"]
    assert simple_commands("for f in *.py; do cat $f; done") == ["for f in *.py; do cat $f; done"]
    assert simple_commands("echo 'a && b' \"c; d\" & wait") == ["echo 'a && b' \"c; d\" & wait"]


# ── names ────────────────────────────────────────────────────────────────────────────────────────────


def _names(*messages: Message) -> list[str]:
    return [name.word for name in ranked(messages, calls_in(messages))]


def test_names_are_sorted_by_use_and_the_newer_first() -> None:
    old = [model("old_name and both_names")] + [model("nothing")] * 100
    assert _names(*old, model("both_names, new_name")) == ["both_names", "new_name", "old_name"]


def test_only_exact_names_are_names() -> None:
    said = 'It returns `nil`, `0/`, `""` or `string`; see `ABC-12`, HTTPServer, `Client.send()`, not toolu_01A6Bf9Xq.'
    assert sorted(_names(model(said))) == ["ABC-12", "Client.send", "HTTPServer"]


def test_a_name_is_shown_with_the_file_in_which_it_was_seen_last() -> None:
    messages = [
        user("Look at both."),
        *called("Read", {"file_path": "a.py"}, "def fetch_page"),
        *called("Edit", {"file_path": "b.py", "new_string": "fetch_page"}),
    ]
    assert "- b.py (changed): fetch_page\n- a.py (read)" in text(messages)


# Each with the names that stand in it, and the words of code that only look as if they did.
ESCAPED = {
    "json": (r'{"output": "func main() {\n\tcommitMessage := x\nOutput_a"}', {"commitMessage", "Output_a"}),
    "json in json": (r'{"a": "{\"b\": \"x\\n\\tcommitMessage\"}"}', {"commitMessage"}),
    "cut json": (r'{"output": "x\n\tcommitMessage and nOthing_el\u00', {"commitMessage"}),
    "json lines": ('plain\n{"a": "x\\tbigHeron"}\n{"a": "\\nsmallHeron"}', {"bigHeron", "smallHeron"}),
    "a numbered line of json": (r'    12→{"a": "x\tbigHeron"}', {"bigHeron"}),
    "a line that grep found": (r'src/log.jsonl:12:{"a": "x\tbigHeron"}', {"bigHeron"}),
    "a windows path": (r"C:\new\Pond\newHeron.py", {"newHeron"}),
    "a windows path in json": (r'{"path": "C:\\new\\Pond\\newHeron.py"}', {"newHeron"}),
    "perhaps an escape": (r"printf 'a\tbigHeron\nsmallHeron'; grep '\bbigPond'", set()),
    "perhaps a path": (r"C:\newHeron\tableName", set()),
    "colours": ("\x1b[31mbigHeron\x1b[0m small\x1b[1mHeron\x1b[m", {"bigHeron", "smallHeron"}),
    "the end of a word": ("9f3ab_Cd 0xDead_Beef über_Heron Gro\u0308ße_Heron", {"über_Heron"}),
}


@pytest.mark.req("TRUE-04")
@every_row("kind", ESCAPED)
def test_names_are_whole_words_of_the_decoded_text(kind: str) -> None:
    text, names = ESCAPED[kind]
    assert set(_names(*called("Read", {"file_path": "a"}, text))) == names


@pytest.mark.req("TRUE-04")
def test_a_long_text_or_command_is_cut_after_a_whole_word() -> None:
    long = "xy, " * 2_499 + "bigHeron_of_the_pond"  # the name begins before the end of what is searched
    assert _names(model(long)) == []
    command = "make " + "lint " * 22 + "a_target_with_a_long_name"
    shown = text([user("Lint it."), *called("Bash", {"command": command}, "ok")])
    assert f"`make {'lint ' * 22}…` ok" in shown


@pytest.mark.req("TRUE-04")
@pytest.mark.parametrize("path", [r"C:\new\table.py", "./src/heron.py", "src/old/../heron.py"])
def test_a_path_is_shown_as_it_stood_there(path: str) -> None:
    shown = text([user("Read."), *called("Read", {"file_path": path})])
    assert f"- {path.removeprefix('./')} (read)" in shown


# ── what holds, and what is open ─────────────────────────────────────────────────────────────────────


def test_decisions_are_the_users_choices_and_what_is_settled() -> None:
    messages = [
        user("Let's go with sqlite for the cache. Is that fine with you?"),
        model(
            "Agreed: sqlite for the cache. Now let's apply the fixes. I'll use a temporary folder instead of memory."
        ),
        *called("AskUserQuestion", {"questions": []}, 'User has answered: "Which port?"="8080"'),
        user("I think the use of the cache is odd."),
    ]
    assert list(decisions(messages, calls_in(messages))) == [
        'User has answered: "Which port?"="8080"',
        "Let's go with sqlite for the cache.",
        "Agreed: sqlite for the cache.",
    ]


def test_standing_instructions_are_the_users_and_general() -> None:
    messages = [
        user("Always run make lint before you commit. Do the session script now, but do not commit it yet."),
        model("I will never use tabs."),
        user("Please use spaces. Bitte immer auf Deutsch antworten. 今後は日本語で書いてください。"),
    ]
    assert list(standing(messages)) == [
        "今後は日本語で書いてください。",
        "Bitte immer auf Deutsch antworten.",
        "Please use spaces.",
        "Always run make lint before you commit.",
    ]


@pytest.mark.parametrize(
    "messages",
    [
        called(
            "TodoWrite", {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}
        ),
        called("update_plan", {"plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "pending"}]}),
        [
            *called("TaskCreate", {"subject": "a", "description": "…"}, "Task #1 created successfully: a"),
            *called("TaskCreate", {"subject": "b", "description": "…"}, "Task #2 created successfully: b"),
            *called("TaskUpdate", {"taskId": "1", "status": "completed"}),
        ],
    ],
    ids=["whole list", "plan", "one by one"],
)
def test_the_steps_that_are_not_done_are_open(messages: list[Message]) -> None:
    assert open_steps(calls_in(messages)) == ["b"]


def test_the_models_question_is_open_until_the_user_replies() -> None:
    asked = [user("Fix the importer for two rings."), model("Both are possible. Shall I keep the old format?")]
    assert "Still open:\n- Shall I keep the old format?" in text([*asked])
    assert "Still open" not in text([*asked, user("Keep it for a year, then drop it.")])


# ── what always holds ────────────────────────────────────────────────────────────────────────────────

_WORDS = st.text(st.sampled_from("ab \n`_/.-\"'äß日本🦩{}[]"), max_size=400)
_CALLS = st.builds(
    lambda tool, path, command, output: called(tool, {"file_path": path, "command": command, "x": [output]}, output),
    st.sampled_from(["Edit", "Bash", "apply_patch", "TodoWrite"]),
    _WORDS,
    _WORDS,
    _WORDS,
)
_TALK = st.lists(st.one_of(st.builds(lambda t: [user(t)], _WORDS), st.builds(lambda t: [model(t)], _WORDS), _CALLS))


_SAID = st.lists(
    st.sampled_from(
        ["\n", "\t", "\r\n", " ", '"', "/", ".", "(", "bigHeron", "new_Pond", "nOut", "tableName", "ß", "7"]
    ),
    max_size=30,
).map("".join)


@pytest.mark.req("TRUE-04")
@given(st.lists(st.tuples(_SAID, st.integers(0, 3), st.integers(0, 400)), max_size=4))
def test_a_digest_states_nothing_that_never_stood_there(results: list[tuple[str, int, int]]) -> None:
    messages = [user("Go on.")]
    for said, depth, most in results:
        output = said
        for _ in range(depth):
            output = json.dumps({"output": output})
        if 0 < most < len(output):  # a long result may be cut anywhere, so that it is no JSON any more
            output = re.sub(r"\w+$", "", output[:-most])
        messages += called("Bash", {"command": "make"}, output)
    plain = [user("Go on."), *(model(f"make {said}") for said, _, _ in results)]
    assert violations([text(messages, budget=4_000)], plain) == []


@pytest.mark.req("TRUE-04")
def test_the_benchmark_recognises_an_invented_name() -> None:
    messages = [user("Go on."), *called("Bash", {"command": "make a.py"}, r'{"a": "x\nOutput_b", "b": "C:\\newHeron"}')]
    names = "Also named: a.py, b.py\nOther names: nOutput_b, Output_b, ewHeron"
    stated = f"Commands, the likeliest first:\n- `make a` ok\n{names}"
    assert violations([stated], messages) == ["name ewHeron", "name nOutput_b", "path b.py"]


@given(_TALK, st.text(st.sampled_from("xyz äß日本🦩"), min_size=1, max_size=600), _TALK, st.integers(100, 4_000))
def test_the_last_ask_comes_first_and_the_budget_is_kept(
    before: list[list[Message]], asked: str, after: list[list[Message]], budget: int
) -> None:
    later = [message for group in after for message in group if message.role != "user"]
    messages = [*(message for group in before for message in group), user(f"? {asked}"), *later]
    found = digest(messages, budget=budget, known="known text")
    assert tokens.estimate(found) <= budget
    assert found.startswith(f"The user asked last: {' '.join(f'? {asked}'.split())[:12]}")


@pytest.mark.parametrize(
    ("sentence", "decided", "sounds"),
    [
        ("Decision: sqlite for the cache.", True, True),
        ("We decided to use sqlite.", True, True),
        ("Nothing was decided about the cache.", False, True),
        ("The cache must never be shared.", False, True),
        ("Dann nehmen wir sqlite.", True, True),
        ("キャッシュは sqlite に決定した。", True, True),
        ("The cache is a file.", False, False),
    ],
)
def test_a_decision_differs_from_what_only_sounds_like_one(sentence: str, decided: bool, sounds: bool) -> None:
    assert (states_decision(sentence), sounds_decided(sentence)) == (decided, sounds)
