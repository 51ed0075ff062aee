"""Edits are recognised in the calls of every tool, and in the answers of tools without calls."""

from __future__ import annotations

from typing import Any

import pytest

from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.services.origin.edits import Edit, edits_in
from cortext.services.origin.history import is_distinctive, normalised
from cortext.testing.table import every_row

PATH = "/work/pond/src/heron.py"
PATCH = """*** Begin Patch
*** Update File: src/heron.py
@@ def wade():
 keep = 1
-old = 2
+new = 3
*** Add File: src/egret.py
+first = 1
+second = 2
*** End Patch"""
DIFF = "--- a/src/heron.py\n+++ b/src/heron.py\n@@ -1,2 +1,2 @@\n keep = 1\n-old = 2\n+new = 3\n"
BLOCK = "<<<<<<< SEARCH\nold = 2\n=======\nnew = 3\n>>>>>>> REPLACE"
REPLACED = [Edit(PATH, "old = 2", "new = 3")]
WRITTEN = [Edit(PATH, "", "new = 3\n", whole=True)]
PATCHED = [
    Edit("src/heron.py", "keep = 1\nold = 2", "keep = 1\nnew = 3"),
    Edit("src/egret.py", "", "first = 1\nsecond = 2", whole=True),
]

# The call of a tool (its name and input), and the edits in it.
CALLS: dict[str, tuple[str, Any, list[Edit]]] = {
    "claude edit": ("Edit", {"file_path": PATH, "old_string": "old = 2", "new_string": "new = 3"}, REPLACED),
    "claude write": ("Write", {"file_path": PATH, "content": "new = 3\n"}, WRITTEN),
    "claude multi": (
        "MultiEdit",
        {"file_path": PATH, "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]},
        [Edit(PATH, "a", "b"), Edit(PATH, "c", "d")],
    ),
    "claude notebook": (
        "NotebookEdit",
        {"notebook_path": "a.ipynb", "cell_id": "1", "new_source": "x = 1\ny = 2"},
        [Edit("a.ipynb", "", "x = 1\ny = 2")],
    ),
    "codex patch": ("apply_patch", PATCH, PATCHED),
    "codex shell": ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}, PATCHED),
    "codex heredoc": (
        "exec_command",
        {"cmd": f"mkdir -p src && cat > {PATH} <<'EOF'\nnew = 3\nEOF\ncat >> b.py <<EOF\nmore\nEOF"},
        [Edit(PATH, "", "new = 3", whole=True), Edit("b.py", "", "more")],
    ),
    "tee": ("Bash", {"command": "tee -a log.md <<EOF\nmore\nEOF"}, [Edit("log.md", "", "more")]),
    "gemini replace": ("replace", {"file_path": PATH, "old_string": "old = 2", "new_string": "new = 3"}, REPLACED),
    "gemini write": ("write_file", {"content": "new = 3\n", "file_path": PATH}, WRITTEN),
    "opencode edit": ("edit", {"filePath": PATH, "oldString": "old = 2", "newString": "new = 3"}, REPLACED),
    "opencode write": ("write", {"filePath": PATH, "content": "new = 3\n"}, WRITTEN),
    "opencode patch": ("patch", {"patchText": PATCH}, PATCHED),
    "copilot edit": ("edit", {"path": PATH, "old_str": "old = 2", "new_str": "new = 3"}, REPLACED),
    "copilot create": ("create", {"path": PATH, "file_text": "new = 3\n"}, WRITTEN),
    "one editor": (
        "str_replace_editor",
        {"command": "create", "path": PATH, "file_text": "new = 3\n"},
        WRITTEN,
    ),
    "insert": (
        "str_replace_based_edit_tool",
        {"command": "insert", "path": PATH, "insert_line": 1, "insert_text": "new = 3"},
        [Edit(PATH, "", "new = 3")],
    ),
    "pi edit": ("edit", {"path": PATH, "edits": [{"oldText": "old = 2", "newText": "new = 3"}]}, REPLACED),
    "kimi edit": ("StrReplaceFile", {"path": PATH, "edit": {"old": "old = 2", "new": "new = 3"}}, REPLACED),
    "kimi append": (
        "WriteFile",
        {"path": PATH, "content": "new = 3", "mode": "append"},
        [Edit(PATH, "", "new = 3")],
    ),
    "continue": ("create_new_file", {"filepath": PATH, "contents": "new = 3\n"}, WRITTEN),
    "vibe": ("search_replace", {"file_path": PATH, "content": BLOCK}, REPLACED),
    "cline": (
        "replace_in_file",
        {"path": PATH, "diff": "------- SEARCH\nold = 2\n=======\nnew = 3\n+++++++ REPLACE"},
        REPLACED,
    ),
    "roo": (
        "apply_diff",
        {"path": PATH, "diff": f"<<<<<<< SEARCH\n:start_line:3\n-------\n{BLOCK.split(chr(10), 1)[1]}"},
        REPLACED,
    ),
    "unified": (
        "apply_diff",
        {"path": PATH, "diff": DIFF},
        [Edit("src/heron.py", "keep = 1\nold = 2", "keep = 1\nnew = 3")],
    ),
    "gptme save": ("save", {"path": PATH, "content": "new = 3\n"}, WRITTEN),
    "gptme patch": (
        "patch",
        {"path": PATH, "patch": "<<<<<<< ORIGINAL\nold = 2\n=======\nnew = 3\n>>>>>>> UPDATED"},
        REPLACED,
    ),
    "a reader": ("Read", {"file_path": PATH}, []),
    "a search": ("Grep", {"pattern": "old = 2", "path": PATH}, []),
    "a list of steps": ("TodoWrite", {"todos": [{"content": "new = 3", "status": "pending"}]}, []),
    "a plain command": ("Bash", {"command": "cat src/heron.py > /dev/null"}, []),
}


def _session(name: str, given: Any, **result: Any) -> list[Message]:
    answer = Part(TOOL_RESULT, call_id="1", **{"output": "done", **result})
    return [
        Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id="1", name=name, input=given)]),
        Message(role=TOOL, parts=[answer]),
    ]


def _plain(edits: list[Edit]) -> list[Edit]:
    return [edit._replace(at=0, name="") for edit in edits]


@pytest.mark.req("FIND-07")
@every_row("case", CALLS)
def test_the_edits_of_a_call_are_found(case: str) -> None:
    name, given, expected = CALLS[case]
    assert _plain(edits_in(_session(name, given))) == expected


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize("result", [{"is_error": True}, {"output": "exit code: 1\npatch does not apply"}])
def test_a_failed_call_edits_nothing(result: dict[str, Any]) -> None:
    assert edits_in(_session("Edit", CALLS["claude edit"][1])) != []
    assert edits_in(_session("Edit", CALLS["claude edit"][1], **result)) == []


def test_an_interrupted_call_edits_nothing() -> None:
    edited = _session("Edit", CALLS["claude edit"][1])
    unanswered = Message(role=ASSISTANT, parts=[Part(TOOL_CALL, id="2", name="Write", input=CALLS["claude write"][1])])
    assert [edit.at for edit in edits_in([*edited, unanswered])] == [0]
    assert len(edits_in([unanswered])) == 1, "a tool that records no results"


TEXTS = {
    "aider": (f"I change it.\n\nsrc/heron.py\n```python\n{BLOCK}\n```\n", [Edit("src/heron.py", "old = 2", "new = 3")]),
    "aider diff": (f"```diff\n{DIFF}```", [Edit("src/heron.py", "keep = 1\nold = 2", "keep = 1\nnew = 3")]),
    "gptme save": ("```save src/heron.py\nnew = 3\n```", [Edit("src/heron.py", "", "new = 3", whole=True)]),
    "gptme append": ("```append src/heron.py\nnew = 3\n```", [Edit("src/heron.py", "", "new = 3")]),
    "an example": ("Like this:\n```python\nnew = 3\n```", []),
}


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize("case", TEXTS)
def test_the_answers_of_a_tool_without_calls_are_edits(case: str) -> None:
    text, expected = TEXTS[case]
    assert _plain(edits_in([Message(role=ASSISTANT, content=text)])) == expected
    with_calls = [*_session("Read", {"file_path": PATH}), Message(role=ASSISTANT, content=text)]
    assert edits_in(with_calls) == [], "a tool with calls does not take edits from a text"


@pytest.mark.parametrize("line", ["}", "", "return None", "if err != nil {", "import os", "else:", "\t\treturn err"])
def test_a_common_line_is_no_evidence(line: str) -> None:
    assert not is_distinctive(line)


@pytest.mark.parametrize(
    "line", ["herons = count_birds(pond)", "retryBudget := perHost(three)", "# Die Reiher stehen am Ufer"]
)
def test_a_distinctive_line_is_evidence_however_it_is_indented(line: str) -> None:
    assert is_distinctive(line)
    assert normalised(f"\t  {line} ") == normalised(line.replace(" ", "  "))
