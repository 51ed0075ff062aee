"""What is written for Pi: sessions, and our files in a project.

A session is never written over an existing one, and is verified by reading it back. Pi sends the messages as they are
stored, but invents a result for a call that is not answered before the next assistant message. So a run of assistant
messages becomes one entry, and each result an entry of its own. A field of ours in the first entry names the messages,
so that a conversation comes back with its original ids; Pi keeps unknown fields.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import NotFound
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.tokens import estimate
from cortext.model.turns import Block, Call, Result, Text, Turn, Turns, runs
from cortext.tools.base import CommandFile, Counts, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.pi.adapter import Pi
from cortext.tools.pi.read import (
    COMPACTION,
    EDIT,
    KEY,
    MESSAGE,
    SESSION,
    TITLE,
    PiReader,
    PiReading,
    Record,
    decoder,
    header,
)
from cortext.tools.shared.commands import agent_skill, check_names, marked, without_run
from cortext.tools.shared.installer import packaged_script
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.lines import ForeignLines, one_line_each
from cortext.tools.shared.native import RunMark, encode, removed_unless_verified, same_message, verify
from cortext.tools.shared.parts import FileWriter, ToolPart
from cortext.tools.shared.program import check_argument, with_options

Json = dict[str, Any]

# The session does not say which of Pi's providers a model of another tool belongs to.
_PROVIDER = "cortext"
REMOVED = "message that was removed from the context of Pi"
REPLACED = "message that Pi sends with another text"


class PiWriter(FileWriter[Pi]):
    """Writes sessions, and says how Pi is started with one."""

    def __init__(self, tool: Pi) -> None:
        super().__init__(tool)
        self.reader = PiReader(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore a copy, unless Pi still has that session; return the session's id."""
        first = header(copy)
        if first is None or not KEY.fullmatch(first.id):
            raise NotFound(f"not a session of {self.tool.title}: {copy}", kept="nothing was changed")
        project = os.path.realpath(project)
        if not self.reader.has(first.id, project):
            target = self._new_path(first.id, project)
            durable.ensure_folder(os.path.dirname(target))
            new_files.mirror_file(copy, target)
        return first.id

    def _new_path(self, key: str, project: str) -> str:
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S-000Z", time.gmtime())
        return os.path.join(self.tool.folder(project), f"{stamp}_{key}.jsonl")

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return what was edited on the current branch; None after a compaction, which leaves a summary."""
        lines = ForeignLines(transcript.path, 0, Counts())
        records = (record for line in lines for record in lines.decode(line, decoder, Record))
        found = {record.id: record for record in records if record.id and record.type != SESSION}
        edits: dict[str, bool] = {}  # the newest edit of each entry: whether it removes it
        record = next(reversed(found.values()), None)
        while record is not None:
            if record.type == COMPACTION:
                return None
            if record.type == EDIT and record.targetId:
                edits.setdefault(record.targetId, record.replacement is None)
            found.pop(record.id)
            record = found.get(record.parentId or "")
        removed = {target for target, removes in edits.items() if removes}
        changed = {REPLACED: len(edits) - len(removed)} if len(edits) > len(removed) else {}
        return Withheld(messages={REMOVED: removed} if removed else {}, changed=changed)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session of the project. It gets another id if `key` is taken or cannot be one."""
        project = os.path.realpath(project)
        if not KEY.fullmatch(key) or self.reader.has(key, project):
            key = str(uuid.uuid4())
        path = self._new_path(key, project)
        normal = Turns(messages)
        turns = [*([Turn(USER, [Text(note)], None)] if note else []), *normal.turns]
        head = {"type": SESSION, "version": 3, "id": key, "timestamp": clock.now(), "cwd": project}
        durable.ensure_folder(os.path.dirname(path))
        durable.replace_file(path, _lines(head, turns, title, self._model_entry(model)))
        with removed_unless_verified(path):
            reading = PiReading(Transcript(tool="pi", key=key, path=path))
            expected = [turn.message for turn in turns if turn.message is not None]
            verify("Pi", expected, reading, reading.counts, same_message)
        return Written.of(normal, key, path)

    def _model_entry(self, model: str) -> dict[str, str] | None:
        """Return the entry that chooses the given model (`provider/id`), or the user's default.

        Those of the messages may be unknown to Pi.
        """
        settings = self.tool.user_settings
        provider, _, name = model.partition("/")
        if not name:
            provider, name = settings.get("defaultProvider", ""), settings.get("defaultModel", "")
        return {"provider": str(provider), "modelId": str(name)} if provider and name else None

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Pi interactively with that session open."""
        check_argument(prompt)
        # After "--" a prompt that begins with a dash is not taken for an option.
        options = [*(["--model", model] if model else []), *(["--", prompt] if prompt else [])]
        return Launch(argv=[self.tool.program.executable(), "--session", written_or_key, *options], cwd=project)

    def instructed(self, launch: Launch, text: str, file: str) -> Launch:
        """Return the launch with a text after Pi's system prompt, and the user's own addition, which it replaces."""
        folders = (os.path.join(launch.cwd, ".pi"), self.tool.agent)
        own = [path for folder in folders if os.path.isfile(path := os.path.join(folder, "APPEND_SYSTEM.md"))]
        options = (["--append-system-prompt", path] for path in (*own[:1], file))
        return with_options(launch, *(word for option in options for word in option))


def _lines(head: Json, turns: Sequence[Turn], title: str, model: Json | None) -> Iterator[bytes]:
    yield _line(head)
    chain = _Chain(str(head["timestamp"]))
    for run in runs(turns):
        bodies = list(_bodies(run, chain))
        messages = [turn.message for turn in run if turn.message is not None]
        for number, body in enumerate(bodies):
            entry = chain.entry(MESSAGE, messages[0] if messages else None, message=body)
            mark = RunMark(added=True) if number else _mark(entry, messages, len(bodies), chain)
            yield _line({**entry, "cortext": msgspec.to_builtins(mark)})
    if title:
        yield _line(chain.entry(TITLE, None, name=title))
    if model:
        yield _line(chain.entry("model_change", None, **model))


class _Chain:
    """The entries so far: each gets an id, and follows the one before."""

    def __init__(self, now: str) -> None:
        self._now = now
        self._last: str | None = None
        self._used: set[str] = set()
        self.reading = PiReading(Transcript(tool="pi", key="", path=""))  # converts what is written
        self.size = 0  # tokens, estimated: Pi computes from the usage how full the context is

    def entry(self, kind: str, source: Message | None, /, **fields: Any) -> Json:
        """Return the next entry. Its id is always the same for the same message."""
        name = (source.id if source else "") or kind
        data = f"{name} {self._last}".encode("utf-8", "replace")
        identity = hashlib.blake2b(data, digest_size=4).hexdigest()
        if identity in self._used:
            identity = hashlib.blake2b(data + b" again", digest_size=16).hexdigest()
        self._used.add(identity)
        stamp = (clock.normalise(source.timestamp) if source else "") or self._now
        entry: Json = {"type": kind, "id": identity, "parentId": self._last, "timestamp": stamp, **fields}
        if kind == MESSAGE:
            entry["message"]["timestamp"] = round((clock.to_epoch(stamp) or 0) * 1000)
        self._last = identity
        return entry


def _bodies(run: Sequence[Turn], chain: _Chain) -> Iterator[Json]:
    """Yield the messages of Pi for a run of turns."""
    blocks = [block for turn in run for block in turn.blocks]
    if run[0].role == ASSISTANT:
        yield _assistant(run, blocks, chain)
        return
    for block in blocks:
        if isinstance(block, Result):
            chain.size += estimate(block.output)
            yield {
                "role": "toolResult",
                "toolCallId": block.call.id,
                "toolName": block.call.name,
                "content": [{"type": "text", "text": block.output}],
                "isError": block.is_error,
            }
    if texts := [block.whole for block in blocks if isinstance(block, Text)]:
        chain.size += sum(map(estimate, texts))
        yield {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def _assistant(run: Sequence[Turn], blocks: Sequence[Block], chain: _Chain) -> Json:
    content = [_block(block) for block in blocks]
    model = next((turn.message.model for turn in run if turn.message and turn.message.model), "unknown")
    before, tokens = chain.size, estimate(encode(content).decode("utf-8", "replace"))
    chain.size += tokens
    free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    usage = {"input": before, "output": tokens, "cacheRead": 0, "cacheWrite": 0, "totalTokens": chain.size}
    return {
        "role": "assistant",
        "content": content,
        "api": _PROVIDER,
        "provider": _PROVIDER,
        "model": model,
        "usage": {**usage, "cost": free},
        "stopReason": "toolUse" if isinstance(blocks[-1], Call) else "stop",
    }


def _block(block: Block) -> Json:
    if isinstance(block, Call):
        return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": block.input}
    return {"type": "text", "text": block.whole if isinstance(block, Text) else block.output}


def _mark(entry: Json, messages: Sequence[Message], entries: int, chain: _Chain) -> RunMark:
    if len(messages) == entries == 1:
        record = msgspec.convert(entry, Record)
        assert record.message is not None
        return RunMark.made_from(messages[0], chain.reading.literal(record, record.message, ""))
    return RunMark.made_from_all(messages)


def _line(entry: Json) -> bytes:
    return one_line_each(encode(entry)) + b"\n"


# ── in a project ─────────────────────────────────────────────────────────────────────────────────────

EXTENSION = ".pi/extensions/cortext.js"
_PLACEHOLDERS = re.compile(r"\$(?=[\d@{]|ARGUMENTS)")


class PiSettings(ToolPart[Pi]):
    """Our files in a project: slash commands (Pi's prompt templates), and an extension that reports to cortext.

    Pi has no MCP servers, and its settings need no entry of ours.
    """

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands, our extension and the shared skill as files of the project."""
        check_names(commands)
        files = {f".pi/prompts/{command.name}.md": _command_text(command) for command in commands}
        files[EXTENSION] = packaged_script(__file__, "extension.js").replace(
            "__PROGRAM__", json.dumps([*program, "hook", "pi"])
        )
        return {path: text.encode("utf-8") for path, text in files.items()} | agent_skill()

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Change nothing: Pi finds our files by itself, and has no MCP servers."""
        return []

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Change nothing."""
        return []

    def mcp_servers(self, project: str) -> set[str]:
        """Return no names: Pi has no MCP servers."""
        return set()

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report a project that Pi does not trust: then it loads neither the commands nor the extension."""
        rules = read_object(os.path.join(self.tool.agent, "trust.json"))
        folder = os.path.realpath(project)
        while folder not in rules and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        trusted = rules.get(folder, self.tool.user_settings.get("defaultProjectTrust") == "always")
        return [] if trusted is True else [("it does not trust this folder yet", "run /trust in pi")]


def _command_text(command: CommandFile) -> str:
    # A word joiner keeps Pi from taking a dollar in the text for a placeholder.
    text = _PLACEHOLDERS.sub("$\u2060", without_run(command.text)).replace("{arguments}", "$ARGUMENTS")
    description = json.dumps(command.description, ensure_ascii=False)
    return f"---\ndescription: {description}\n---\n{marked(text, command.name, '$ARGUMENTS')}"
