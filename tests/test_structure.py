"""The rules of the house that import-linter cannot say. `python -m tests.structure` prints the figures."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cortext.tools import registry
from tests import structure

# These figures only fall, apart from a little room for a feature: whoever lowers one writes the new one here.
MOST = {
    "files": 404,
    "lines": 89_800,
    "core: files": 288,
    "core: lines": 62_000,
    "imports inside functions": 121,
    "class names twice outside adapters": 0,
}
# Files of ours that a command enters; `python -m tests.structure --files` names them.
MOST_ENTERED = {"list": 55, "search": 84, "show": 83, "hook (Stop)": 94, "resume --dry-run": 148}
LONGEST = 600
# A file has 80 to 400 lines, or a reason.
LEAST_LINES, MOST_LINES, MOST_REASONS = 80, 400, 30
REASONS = {
    "agents/llm/base.py": "the protocol between the agents and the providers of models",
    "agents/talk/slash.py": "aur, alfred and the bot fill this table, and may not import each other",
    "agents/telegram/logs.py": "every module of the bot logs through it, so it imports none of them",
    "agents/telegram/main.py": "reads options and token before the library, which is an extra, is imported",
    "config/folders.py": "every package imports it, and few need the settings",
    "embedding/build.py": "a script that a developer runs; nothing imports it",
    "faces/cortext/commands/browse.py": "the options of a screen that is a package of its own",
    "faces/cortext/commands/hook.py": "AI tools wait for it: it imports nothing before it can report a failure",
    "faces/cortext/commands/merge_driver.py": "git starts it for each file: it imports nothing but the merge",
    "faces/mcp/main.py": "AI tools wait for its start: it imports neither the SDK, which is an extra, nor the stores",
    "index/search/arrays.py": "sets a variable before numpy is imported for the first time",
    "io/durable.py": "the only module that writes to disk: in two, there would be two",
    "io/http.py": "where a key may be sent, for the agents and for the index, which share nothing else",
    "model/titles.py": "which title counts, for stores and services: every start imports sessions, few need this",
    "model/turns.py": "one pass over a conversation, which counts each change where it makes it",
    "safety/secrets/rules.py": "a table of the kinds of secrets, each with the value that tests it",
    "safety/terminal.py": "whatever is printed passes it, so it imports nothing",
    "server/schema.py": "the statements of all versions, in the order in which a server runs them",
    "server/store.py": "one class: the methods of one protocol",
    "services/capture/capture.py": "one class: what is found, compared and appended under one lock",
    "services/events/compaction.py": "a hook imports it only after the tool compacted a chat, which is rare",
    "services/workspace/merge_driver.py": "what git starts for each file imports nothing but this",
    "services/workspace/notices.py": "hooks write a line and lists show it: both import nothing more for it",
    "testing/table.py": "packages of others import it under this name",
    "tools/base.py": "the protocols of an adapter, to be read from top to bottom",
    "tools/claude_code/messages.py": "one builder: what a record of Claude Code means depends on those before it",
    "tools/codex/messages.py": "one builder: it holds an answer back until all of its records are there",
    "tools/codex/records.py": "every kind of record of Codex, with the fields that are read",
    "tools/gemini_cli/messages.py": "one function for each kind of record of Gemini CLI",
    "tools/opencode/write.py": "a document, its import and the check of what arrived: each names the same fields",
}
# Imports inside functions are for third-party packages and in these files. All others import at their top.
LOCAL_IMPORTS = {
    "a table of commands, or a registry: each entry is imported when it is used": [
        "agents/alfred/main.py",
        "agents/aur/main.py",
        "extensions.py",
        "faces/cortext/commands/demo.py",
        "faces/cortext/main.py",
        "index/search/models.py",
        "web/command.py",
        "wiring/stores.py",
        "wiring/tools.py",
    ],
    "an AI tool waits for it, and must not be disturbed": [
        "faces/cortext/commands/hook.py",
        "faces/mcp/main.py",
        "services/events/chat.py",
        "services/events/hooks.py",
    ],
    "needs an extra (a driver, the bot's library, a prompt), which the command must be able to report": [
        "agents/telegram/main.py",
        "agents/terminal/prompt.py",
        "server/store_command.py",
    ],
    "every short command imports it, and few need this: it would take from their 120 ms": [
        "config/load.py",
        "faces/cortext/commands/_listing.py",
        "faces/cortext/commands/completion.py",
        "faces/cortext/commands/doctor.py",
        "faces/cortext/commands/list_.py",
        "faces/cortext/commands/show.py",
        "faces/cortext/supervise.py",
        "faces/terminal/output.py",
        "faces/terminal/run.py",
        "safety/credentials.py",
        "safety/languages.py",
        "services/capture/first_turns.py",
        "services/capture/rescue.py",
        "services/capture/uncaptured.py",
        "services/library/listing.py",
        "services/library/sources.py",
        "services/projects/git.py",
        "services/projects/repository.py",
        "services/projects/safety_copies.py",
        "services/projects/workspaces.py",
        "services/workspace/installed_tools.py",
        "services/workspace/running_chats.py",
        "tools/shared/program.py",
    ],
    "a command that may go on in another: its screen, or the resume of what was found": [
        "faces/cortext/commands/_resume_one.py",
        "faces/cortext/commands/_which.py",
        "faces/cortext/commands/browse.py",
        "faces/cortext/commands/resume.py",
    ],
    "numpy, tantivy or the embedding is behind it, and a query by words needs less": [
        "index/search/generation.py",
        "index/search/keyword_writer.py",
        "index/search/retrieve.py",
        "index/search/update.py",
        "services/library/backfill.py",
        "services/library/indexed_search.py",
    ],
    "most captures and most chats never come to it": [
        "agents/talk/sessions.py",
        "services/capture/first_reading.py",
        "services/workspace/auto_pause.py",
        "store/files/workspace.py",
    ],
}


# The classes of faces and agents that others read while they change: each is one thing that is going on.
STATE = {
    "AlfredLoop": "a chat at a terminal",
    "AurLoop": "a session at a terminal",
    "Browser": "a screen",
    "BrowserState": "what is on that screen",
    "ChatReply": "a reply that is being sent",
    "Context": "the stores of an MCP server, opened again when they changed",
    "Growing": "a message that grows in the chat",
    "Markdown": "a text that is being printed",
    "OpenSession": "the session of a chat, which can change its agent and model",
    "PendingInterrupt": "a key that was pressed",
    "Progress": "a line that is counting",
    "Supervisor": "a program that is running",
    "Talk": "a conversation with a model, of which a part may be unsaved",
    "TalkLoop": "a chat at a terminal",
    "_Draft": "a reply that is arriving",
    "_Out": "a text that is being measured",
    "_Run": "a program that is running",
}


@pytest.mark.parametrize("name", MOST)
def test_a_figure_of_the_structure_does_not_rise(name: str) -> None:
    value = structure.figures()[name]
    assert value <= MOST[name], f"{name}: {value:,.0f}, and {MOST[name]:,} is the most"
    assert value > MOST[name] * 0.97 - 2, f"{name} fell to {value:,.0f}: write that into MOST"


@pytest.mark.long
def test_a_command_enters_no_more_files_than_before(tmp_path: Path) -> None:
    entered = structure.entered(tmp_path / "home", tmp_path / "demo")
    counts = {name: len(files) for name, files in entered.items()}
    assert counts.keys() == MOST_ENTERED.keys()
    assert {name: count for name, count in counts.items() if count > MOST_ENTERED[name]} == {}
    low = {name: count for name, count in counts.items() if count < MOST_ENTERED[name] - 3}
    assert low == {}, "they fell: write that into MOST_ENTERED"


def test_an_import_inside_a_function_is_of_a_third_party_or_has_a_reason() -> None:
    local = {module.name for module in structure.modules() if any(structure.local_imports(module))}
    listed = [name for names in LOCAL_IMPORTS.values() for name in names]
    assert local - {*listed} == set(), "import at the top; if that is too slow for a command, say so in LOCAL_IMPORTS"
    assert {*listed} - local == set(), "it has none any more: remove its name"
    assert len(listed) == len({*listed})


def test_no_import_of_ours_is_hidden_in_a_string() -> None:
    hidden = re.compile(r"""import_module\(\s*f?["']cortext|__import__\(""")
    files = [path for path in structure.SOURCE.rglob("*.py") if hidden.search(path.read_text("utf-8"))]
    assert files == []


def test_no_file_is_longer_than_allowed() -> None:
    long = {module.name: module.lines for module in structure.modules() if module.lines > LONGEST}
    assert long == {}


def test_a_file_has_80_to_400_lines_or_a_reason() -> None:
    counted = [module for module in structure.modules() if not module.is_init]
    odd = {module.name for module in counted if not LEAST_LINES <= module.lines <= MOST_LINES}
    assert odd - REASONS.keys() == set(), "merge or divide it; if its size has a reason, write that down"
    assert REASONS.keys() - odd == set(), "its size is no longer odd: remove its name"
    assert len(REASONS) <= MOST_REASONS


def test_a_service_gives_its_result_as_a_value() -> None:
    written = structure.written_outside_init()
    assert [line for line in written if line.startswith(("services/", "index/"))] == []
    assert {line.partition(": ")[2].partition(".")[0] for line in written} == STATE.keys()


def test_no_module_of_ours_is_imported_under_another_name() -> None:
    assert [line for module in structure.modules() for line in structure.renamed_imports(module)] == []


def test_every_package_says_what_lives_there_and_what_does_not() -> None:
    said = {module.name: ast.get_docstring(module.tree) or "" for module in structure.modules() if module.is_init}
    assert [name for name, text in said.items() if not text] == []
    # tools/__init__ says it for every adapter, and docs/library.md for the public names.
    others = {
        name: text for name, text in said.items() if not re.fullmatch(r"(tools/(?!shared)\w+/)?__init__\.py", name)
    }
    bounds = re.compile(r"\b(belongs?|nothing|no|not|only|nowhere)\b", re.IGNORECASE)
    assert [name for name, text in others.items() if not bounds.search(text)] == []


def test_an_unknown_record_is_counted_in_a_file_that_the_architecture_names() -> None:
    page = (structure.ROOT / "docs/architecture.md").read_text("utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith("| a record that a tool has begun to write"))
    named = re.findall(r"`tools/NAME/(\w+)\.py`", row)
    assert named == ["messages", "read", "adapter"]
    for package in sorted({place.split(".")[2] for place in registry.TOOLS.built_in.values()} - {"aider"}):
        # Aider's history is Markdown, which has no kinds of records.
        files = [structure.SOURCE / "tools" / package / f"{name}.py" for name in named]
        assert any("counts.unknown" in path.read_text("utf-8") for path in files if path.exists()), package


def test_a_test_is_named_in_under_80_characters() -> None:
    names = [
        f"{path.name}: {node.name}"
        for path in (structure.ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if len(node.name) >= 80
    ]
    assert names == []
