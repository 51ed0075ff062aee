"""Conversations of Claude Code continued in Codex: by `cortext resume`, and by Codex's own `/import`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import ai_programs
from tests.support.cli import SCRIPTS
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Request
from tests.support.screen import Screen

from bench.common import parser_of, print_table
from cortext.safety.framing import END

PROMPT = "Which of the herons stand in the reeds?"
ANSWER = "All of them stand there."
SECONDS = 180.0
CALLS = "tool calls, as calls with a result"
RESULTS = "whole results"
LINES = "lines of the results"
PERSON = "messages of the person"
ASSISTANT = "messages of the assistant"
RECEIVED = "characters in all"
# Records of a conversation that neither the person nor the assistant in it wrote.
OF_THE_PROGRAM = ("isMeta", "isSidechain", "isCompactSummary")
# A user record of Claude Code that nobody typed.
_NOT_TYPED = re.compile(r"\s*(?:<(?:command-|local-command-|task-notification|system-reminder)|\[Request interrupted)")
_CWD = re.compile(r'"cwd":"[^"\\]*"')


class Call(NamedTuple):
    """A tool call, and the text of its result."""

    input: Any
    result: str


class Content(NamedTuple):
    """What a transcript holds."""

    person: list[str]
    assistant: list[str]
    calls: list[Call]


def run_importer() -> None:
    """Conversations of Claude Code continued in Codex: by `cortext resume`, and by Codex's own `/import`.

    python -m bench importer FOLDER [--codex 0.169.0]

    FOLDER holds transcripts of Claude Code (`*.jsonl`). Each way gets a home of its own with the same copies, in which
    only the working folder is replaced by one that exists. `cortext import`, then `cortext resume ID --ai codex` in a
    terminal; `/import` in a terminal with Codex, then `codex resume ID PROMPT`. Counted is what the model received with
    the next prompt: a server on loopback records it. What the transcripts hold is read here, not by cortext's reader.
    """
    parser = parser_of(run_importer)
    parser.add_argument("folder", help="transcripts of Claude Code (*.jsonl)")
    parser.add_argument("--codex", default="", metavar="VERSION", help="default: the version that the tests use")
    options = parser.parse_args()
    if options.codex:
        ai_programs.use("codex", options.codex)
    read = {file: content_of(file) for file in sorted(Path(options.folder).glob("*.jsonl"))}
    files = [file for file, content in read.items() if content.person]  # not those of side agents
    if not files:
        sys.exit(f"no conversations (*.jsonl of Claude Code) in {options.folder}")
    contents = [read[file] for file in files]
    ways = {"cortext resume": received_from(files, by_cortext), "Codex's own /import": received_from(files, by_codex)}
    print(f"{len(files)} conversations, {ai_programs.version('codex')}\n")
    counts = [
        sum((arrived(content, request) for content, request in zip(contents, requests, strict=True)), Counter[str]())
        for requests in ways.values()
    ]
    whole = sum((size_of(content) for content in contents), Counter[str]())
    rows = [
        (what, f"{of:,}", *(f"{count[what]:,} ({count[what] / of:.0%})" for count in counts))
        for what, of in whole.items()
    ]
    rows.append((RECEIVED, "", *(f"{count[RECEIVED]:,}" for count in counts)))
    print_table(("what the model received", "of", *ways), rows)


# ── what is counted ──────────────────────────────────────────────────────────────────────────────────


def size_of(content: Content) -> Counter[str]:
    """Return how much of each kind a transcript holds."""
    return Counter(
        {
            CALLS: len(content.calls),
            RESULTS: len(content.calls),
            LINES: sum(len(lines_of(call.result)) for call in content.calls),
            PERSON: len(content.person),
            ASSISTANT: len(content.assistant),
        }
    )


def arrived(content: Content, request: Request) -> Counter[str]:
    """Return how much of each kind the model received, wherever a line or a result stands there."""
    turns = request.conversation
    answered = {turn.call_id for turn in turns if turn.kind == "tool_result"}
    calls = [turn.arguments for turn in turns if turn.kind == "tool_call" and turn.call_id in answered]
    texts = [turn.text for turn in turns if turn.text]
    inputs = [text for turn in turns if turn.kind == "tool_call" for text in texts_in(turn.arguments)]
    lines = {line for text in texts for line in lines_of(text)}
    return Counter(
        {
            CALLS: sum(is_among(calls, call) for call in content.calls),
            RESULTS: sum(any(call.result.strip() in text for text in texts) for call in content.calls),
            LINES: sum(line in lines for call in content.calls for line in lines_of(call.result)),
            PERSON: said_by("user", content.person, request),
            ASSISTANT: said_by("assistant", content.assistant, request),
            RECEIVED: sum(map(len, (*texts, *inputs))),
        }
    )


def is_among(calls: list[Any], call: Call) -> bool:
    """Whether one of the calls has every text of this one's input; it is taken out, because each counts once."""
    wanted = set(texts_in(call.input))
    same = next((index for index, given in enumerate(calls) if wanted <= set(texts_in(given))), None)
    if same is None:
        return False
    del calls[same]
    return True


def said_by(role: str, said: Sequence[str], request: Request) -> int:
    """Return how many texts stand whole in a text of this role."""
    texts = [turn.text for turn in request.conversation if turn.kind == "text" and turn.role == role]
    return sum(any(one.strip() in text for text in texts) for one in said)


def lines_of(text: str) -> list[str]:
    """Return the lines without the blank ones, and without white space at their ends."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


# ── the source ───────────────────────────────────────────────────────────────────────────────────────


def content_of(file: Path) -> Content:
    """Return what was said and called in a transcript, without what Claude Code added by itself."""
    person: list[str] = []
    assistant: list[str] = []
    inputs: dict[str, Any] = {}
    results: dict[str, str] = {}
    for record in records(file):
        if record.get("type") not in ("user", "assistant") or any(record.get(mark) for mark in OF_THE_PROGRAM):
            continue
        if record["message"].get("model") == "<synthetic>":  # an answer that no model gave
            continue
        said = person if record["type"] == "user" else assistant
        for part in parts_of(record["message"]["content"]):
            if part["type"] == "text" and not (said is person and _NOT_TYPED.match(part["text"])):
                said.append(part["text"])
            elif part["type"] == "tool_use":
                inputs[part["id"]] = part["input"]
            elif part["type"] == "tool_result":
                texts = [block.get("text", "") for block in parts_of(part["content"])]
                results[part["tool_use_id"]] = "\n".join(texts)
    return Content(person, assistant, [Call(inputs[key], results.get(key, "")) for key in inputs])


def parts_of(content: Any) -> Any:
    """Return the blocks of a content, which may be a bare text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def records(file: Path) -> Iterator[Any]:
    """Yield the records; Claude Code may write two of them on one line."""
    decoder = json.JSONDecoder()
    for line in file.read_text("utf-8").split("\n"):
        rest = line.strip()
        while rest:
            record, end = decoder.raw_decode(rest)
            yield record
            rest = rest[end:].lstrip()


# ── the two ways ─────────────────────────────────────────────────────────────────────────────────────


def received_from(files: Sequence[Path], way: Callable[[Desk, Path], dict[str, list[str]]]) -> list[Request]:
    """Continue each conversation in Codex; return what the model received with the next prompt.

    A way returns the command that continues each, by the name of its file.
    """
    with tempfile.TemporaryDirectory(prefix="importer-") as folder, ModelServer() as server:
        desk = Desk(Path(folder), server, ("codex",))
        project = desk.project()
        subprocess.run(["git", "init", "-q", str(project)], env=desk.env, check=True)
        kept = claude_folder(desk, project)
        kept.mkdir(parents=True)
        for file in files:
            (kept / file.name).write_text(_CWD.sub(f'"cwd":"{project}"', file.read_text("utf-8")), "utf-8")
        commands = way(desk, project)
        if missing := [file.name for file in files if file.stem not in commands]:
            sys.exit(f"{way.__name__}: not imported: {', '.join(missing)}")
        return [asked(desk, project, commands[file.stem]) for file in files]


def by_cortext(desk: Desk, project: Path) -> dict[str, list[str]]:
    """Import the transcripts with cortext; return the command that resumes each, by the name of its file."""
    done = desk.cortext("import", "--from", "claude", cwd=project)
    if done.code:
        sys.exit(f"cortext import: {done.err}")
    cortext = str(SCRIPTS / "cortext")
    ids = [row["id"] for row in desk.cortext("list", "--json", cwd=project).json]
    return {name.removeprefix("claude-"): [cortext, "resume", name, "--ai", "codex"] for name in ids}


def by_codex(desk: Desk, project: Path) -> dict[str, list[str]]:
    """Import the transcripts with `/import` in Codex; return the command that resumes each, by the name of its file."""
    codex = desk.tools["codex"]
    with terminal(desk, project, [codex.program]) as screen:
        screen.at_prompt().wait_for("Ask Codex to do anything", timeout=SECONDS)
        screen.type("/import")
        screen.wait_for("and recent chats from Claude Code")
        screen.press("Enter")
        screen.wait_for("Import selected", f"Chat sessions ({len(list(claude_folder(desk, project).iterdir()))})")
        screen.press("Enter")
        screen.wait_for("Import finished", timeout=SECONDS)
    ledger = json.loads((desk.home / ".codex" / "external_agent_session_imports.json").read_text("utf-8"))
    return {
        Path(entry["source_path"]).stem: [codex.program, "resume", entry["imported_thread_id"], PROMPT]
        for entry in ledger["records"]
    }


def asked(desk: Desk, project: Path, command: list[str]) -> Request:
    """Run a command in a terminal; return the request of the first prompt, when it has been answered."""
    before = len(desk.server.requests)
    desk.server.answer(PROMPT, ANSWER)
    desk.server.answer(END, ANSWER)
    with terminal(desk, project, command) as screen:
        try:
            request = desk.server.wait_for(lambda one: one.number > before and one.is_turn, SECONDS)
        except TimeoutError:
            sys.exit(f"the model was not asked\n{screen.text()}")
        screen.wait_for(ANSWER, timeout=SECONDS)
    return request


@contextmanager
def terminal(desk: Desk, project: Path, command: list[str]) -> Iterator[Screen]:
    """Run a command in a terminal until the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="screen-") as folder,
        Screen(Path(folder), command, desk.env, project, "150x70") as screen,
    ):
        yield screen


def claude_folder(desk: Desk, project: Path) -> Path:
    """Return the folder in which Claude Code keeps the transcripts of a project."""
    return desk.home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(project))
