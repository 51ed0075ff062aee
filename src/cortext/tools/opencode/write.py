"""Write a native session: generate a document, let OpenCode import it, and read it back.

The database belongs to OpenCode, so we never write to it. An import over an existing session would add to it, so it is
refused. A session whose import fails, or that is not read back as it was written, is deleted.

OpenCode stores a tool's result with the call, has no system messages, and rejects whatever does not match its schema.
Every part is annotated with the message it comes from, so that reading returns the same messages.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.errors import DamagedData, NotFound, SessionExists, SessionNotFound, UsageError, WriteFailed
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import slug
from cortext.model.message import ASSISTANT, TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part, Picture
from cortext.model.turns import Call, Image, Text, Turn, Turns, whole_characters
from cortext.tools.base import Launch, Messages, Transcript, Withheld, Written
from cortext.tools.opencode import version2
from cortext.tools.opencode.adapter import OpenCode, is_key
from cortext.tools.opencode.document import blocks_of, children_of, head_of
from cortext.tools.opencode.live import Model, choose_model, interactive, with_instructions
from cortext.tools.opencode.messages import Moments
from cortext.tools.opencode.read import DatabaseReading, OpenCodeReader
from cortext.tools.opencode.records import MARK, Mark, notes_text
from cortext.tools.opencode.store import exists, is_compacted
from cortext.tools.shared.native import verify
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.program import Program, run
from cortext.tools.shared.sqlite import is_database

IMPORT_SECONDS = 300.0
DELETE_SECONDS = 60.0
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_BITS = 48
_LONGEST_TITLE = 100
_LOCK_FILE = b'{"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}\n'
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
Signature = tuple[str, str, tuple[Any, ...]]


class OpenCodeWriter(ToolPart[OpenCode]):
    """Writes sessions, and says how OpenCode is started with one."""

    def __init__(self, tool: OpenCode) -> None:
        super().__init__(tool)
        self.reader = OpenCodeReader(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Import a kept copy, with its side agents, if OpenCode has lost the session; return the session's key."""
        if (copied := self.reader.version2.copied_transcript(copy)) is not None:
            if not any(found.key == copied.key for found in self.reader.transcripts()):
                raise SessionNotFound(
                    f"a session of OpenCode 2 cannot be put back: {copied.key}",
                    kept="cortext's copy of it",
                    hint="resume it with --rewrite: a new session gets its messages",
                )
            return copied.key
        key = str(head_of(copy).info.get("id") or "")
        if not is_key(key):
            raise DamagedData(f"{copy} is not a session of OpenCode", kept="it is unchanged")
        if not exists(self.tool.folders.database, key):
            import_document(self.tool.program, blocks_of(copy), key, project=project)
        for child, document in children_of(copy):
            if not exists(self.tool.folders.database, child):
                import_document(self.tool.program, iter((document,)), child, project=project)
        if not exists(self.tool.folders.database, key):
            raise SessionNotFound(f"OpenCode did not store session {key}", kept="cortext's copy of it")
        return key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return an empty report, because OpenCode sends everything; None if the session was compacted."""
        if self.reader.is_version2(transcript) and is_database(transcript.path):
            return None if version2.is_compacted(transcript.path, transcript.key) else Withheld()
        return None if is_compacted(transcript.path, transcript.key) else Withheld()

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages; nothing is written."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new session with these messages as real turns, through `opencode import`."""
        database = self.tool.folders.database
        if not is_key(key) or exists(database, key):
            key = new_key()
        chosen = choose_model(model, project=project, folders=self.tool.folders)
        return write_session(
            self.tool.program, database, messages, project=project, title=title, key=key, model=chosen, note=note
        )

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to open that session on the terminal; the prompt, if any, is sent first."""
        return interactive(
            self.tool.program.executable(),
            written_or_key,
            project=project,
            prompt=prompt,
            model=model,
            folders=self.tool.folders,
            environ=self.tool.environ,
        )

    def instructed(self, launch: Launch, text: str, file: str) -> Launch:
        """Return the launch with a file of instructions more than the user has."""
        return with_instructions(launch, file, self.tool.environ)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Import an empty session, because only an imported one has an id we know; return it and how to open it."""
        key = new_key()
        launch = self.launch(key, project=project, prompt=prompt, model=model)
        return write_empty(self.tool.program, self.tool.folders.database, project=project, title=title, key=key), launch

    def discard(self, written: Written, *, project: str) -> None:
        """Delete a session that was never used."""
        delete(self.tool.program, written.key, project=project)


def new_key() -> str:
    """Return a new session id, which sorts before older ones, as OpenCode's own ids do."""
    moment = ~(int(time.time() * 1000) << 12) & ((1 << _ID_BITS) - 1)
    return f"ses_{moment:012x}{_letters(os.urandom(16))}"


def write_session(
    program: Program,
    database: str,
    messages: Sequence[Message],
    *,
    project: str,
    title: str,
    key: str,
    model: Model,
    note: str = "",
) -> Written:
    """Write a new session with these messages."""
    rendering = Rendering(messages, note)
    if not rendering.native:
        raise UsageError("nothing to write: every message is empty", kept="nothing was changed")
    if exists(database, key):
        raise SessionExists(f"OpenCode already has a session {key}", kept="it is unchanged")
    title = whole_characters(title).strip() or _title_from(messages)
    import_document(program, document(rendering, key, title[:_LONGEST_TITLE], project, model), key, project=project)
    try:
        _verify(database, key, rendering)
    except DamagedData:
        delete(program, key, project=project)
        raise
    return Written.of(rendering.normal, key, database)


def write_empty(program: Program, database: str, *, project: str, title: str, key: str) -> Written:
    """Write a new session without messages."""
    title = whole_characters(title).strip()[:_LONGEST_TITLE] or "A new conversation"
    import_document(program, document(Rendering([]), key, title, project, Model("", "")), key, project=project)
    return Written(key=key, path=database, messages=0, tool_calls=0)


def import_document(program: Program, blocks: Iterator[bytes], key: str, *, project: str) -> None:
    """Let OpenCode import a document; if that fails, delete what was imported."""
    folder = tempfile.mkdtemp(prefix="cortext-", dir=program.environ.get("TMPDIR") or None)
    try:
        path = os.path.join(folder, "session.json")
        durable.replace_file(path, blocks)
        code, printed = _run(program, ["import", path], cwd=project, seconds=IMPORT_SECONDS)
        if code != 0 or f"Imported session: {key}" not in printed:
            raise WriteFailed(
                f"OpenCode did not import the session: {printed[-400:] or f'exit status {code}'}",
                kept="the conversation, in cortext's store",
                hint="resume it with --print, and report this error",
            )
    except WriteFailed:
        delete(program, key, project=project)
        raise
    finally:
        durable.remove_tree(folder)


def delete(program: Program, key: str, *, project: str) -> None:
    """Delete a session."""
    _run(program, ["session", "delete", key], cwd=project, seconds=DELETE_SECONDS)


def _run(program: Program, arguments: Sequence[str], *, cwd: str, seconds: float) -> tuple[int, str]:
    """Run a command of OpenCode in a folder; return its exit status and its output."""
    path = program.path()
    if not path:
        raise NotFound(
            "OpenCode is not installed here",
            kept="nothing was changed",
            hint="install it (npm install -g opencode-ai), or choose another tool with --ai",
        )
    try:
        with tempfile.TemporaryDirectory(prefix="cortext-", dir=program.environ.get("TMPDIR") or None) as folder:
            argv = [path, "--pure", *arguments]
            done = run(argv, program.environ, cwd=cwd, seconds=seconds, env=_without_config(program.environ, folder))
    except TimeoutError as error:
        raise WriteFailed(
            f"OpenCode did not finish within {seconds:g} s: {' '.join(arguments)}",
            kept="the conversation, in cortext's store",
            hint="try again; if it still hangs, start opencode by hand and check what it waits for",
        ) from error
    except OSError as error:
        raise NotFound(f"OpenCode could not be started in {cwd}: {error}", kept="nothing was changed") from error
    return done.code, _ESCAPES.sub("", f"{done.out}\n{done.err}").strip()


def _without_config(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return an environment without any config, so that OpenCode finds nothing to install.

    At every start it begins to install its plugin package into each config folder that lacks it. A short command
    ends before the installation does, and leaves a lock for which the next start waits a minute.
    """
    config_folder = os.path.join(folder, "opencode")
    durable.ensure_folder(os.path.join(config_folder, "node_modules"))
    durable.replace_file(os.path.join(config_folder, "package-lock.json"), [_LOCK_FILE])
    data = os.path.join(environ["HOME"], ".local", "share")
    environment = {
        "XDG_CONFIG_HOME": folder,
        "XDG_DATA_HOME": environ.get("XDG_DATA_HOME") or data,
        "OPENCODE_TEST_HOME": folder,
        "OPENCODE_CONFIG_DIR": config_folder,
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    }
    # OpenCode asks Git for the project, and Git may have its config in the folder that we replaced.
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(environ["HOME"], ".config")
    git = os.path.join(config, "git", "config")
    if os.path.exists(git) and not os.path.exists(os.path.join(environ["HOME"], ".gitconfig")):
        environment["GIT_CONFIG_GLOBAL"] = git
    return environment


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


class NativePart(msgspec.Struct):
    """A text, or a tool call with its result, and our annotation."""

    mark: Mark
    text: str = ""
    tool: str = ""
    call: str = ""
    input: dict[str, Any] = {}
    output: str = ""
    failed: bool = False
    picture: Picture | None = None  # an image that follows the text
    is_hidden: bool = False  # sent to the model, and not shown


class NativeMessage(msgspec.Struct):
    """One message of OpenCode; `of` is the message it comes from, None if it was added."""

    role: str
    of: Message | None
    parts: list[NativePart]


class _Answer(msgspec.Struct):
    """A tool message as it will be read back: the message it comes from, its id and its parts."""

    of: Message
    identity: str
    part_signatures: list[Any]


class Rendering:
    """What to write for a sequence of messages, what had to change, and what reading must return."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages, images_in=(USER,))
        self._results = self.normal.results
        self._times_read: dict[str, int] = {}
        # OpenCode has no field for images and files that came with results: the first result mentions them as text.
        self._notes = {turn.results[0].call.id: _attachments(turn) for turn in self.normal.turns if turn.results}
        self.native: list[NativeMessage] = []
        self.expected: list[Signature] = []
        if note:
            self.native.append(NativeMessage(USER, None, [NativePart(Mark(added=True), text=note, is_hidden=True)]))
        for turn in self.normal.turns:
            self._add(turn)

    def _add(self, turn: Turn) -> None:
        message, attachments = turn.message, _attachments(turn) if turn.results else []
        identity = message.id if message is not None else ""
        texts = [text for text in turn.texts if not any(text.part is part for part in attachments)]
        if turn.results and texts:
            identity = self._identity(identity)  # its results are read back as a separate message
        answers: list[_Answer] = []
        parts: list[NativePart] = []
        for block in turn.blocks:
            if isinstance(block, Call):
                parts.append(self._call(block, identity, answers))
            elif isinstance(block, Text) and any(block is text for text in texts):
                parts += _text(block, turn, identity)
        if not parts:
            return
        self.native.append(NativeMessage(turn.role, message, parts))
        if message is not None:
            part_signatures = tuple(_expected_signature(part) for part in parts if part.tool or not part.mark.added)
            self.expected.append((message.role, identity, part_signatures))
        self.expected += [(TOOL, answer.identity, tuple(answer.part_signatures)) for answer in answers]

    def _call(self, call: Call, identity: str, answers: list[_Answer]) -> NativePart:
        mark = Mark(id=identity)
        mark.call = call.part.id if call.part.id != call.id else ""
        mark.name = call.part.name if call.part.name != call.name else ""
        mark.wrapped = call.part.input is not None and not isinstance(call.part.input, dict)
        native = NativePart(mark, tool=call.name, call=call.id, input=call.input)
        result = self._results[call.id]
        if result.message is None:
            mark.added = True
            native.output = result.output
            return native
        mark.notes = self._notes.get(call.id, [])
        if not answers or answers[-1].of is not result.message:
            answers.append(_Answer(result.message, self._identity(result.message.id), []))
        mark.result = answers[-1].identity
        native.failed = result.is_error
        native.output = result.output + notes_text(mark.notes)
        answers[-1].part_signatures.append((TOOL_RESULT, mark.call or call.id, result.output, result.is_error))
        answers[-1].part_signatures += [("note", part.ref) for part in mark.notes]
        return native

    def _identity(self, identity: str) -> str:
        """Return the id under which a tool message is read back: a new one each time, if its results are apart."""
        self._times_read[identity] = count = self._times_read.get(identity, 0) + 1
        return identity if not identity or count == 1 else f"{identity}.{count}"


def _attachments(turn: Turn) -> list[Part]:
    """Return the images and files in a turn."""
    parts = (text.part for text in turn.texts if text.part is not None)
    return [part for part in parts if part.type not in (TEXT, TOOL_CALL, TOOL_RESULT)]


def _text(text: Text, turn: Turn, identity: str) -> Iterator[NativePart]:
    if turn.message is None:
        yield NativePart(Mark(added=True), text=text.whole)
        return
    mark = Mark(id=identity, role=turn.message.role if turn.message.role != turn.role else "")
    if text.part is not None and (text.text or text.part.type == TOOL_RESULT):
        yield NativePart(Mark(added=True), text=text.label)
        if text.part.type == TOOL_RESULT:
            mark.part = msgspec.structs.replace(text.part, output="")  # the text is the output
        elif text.part.type != TEXT:
            mark.part = text.part
        yield NativePart(mark, text=text.text)
        return
    mark.part = text.part
    yield NativePart(mark, text=text.whole, picture=text.picture if isinstance(text, Image) else None)


def _expected_signature(part: NativePart) -> tuple[Any, ...]:
    """Return the signature of a part as it will be read back."""
    if part.tool:
        return TOOL_CALL, part.mark.call or part.call, part.mark.name or part.tool
    if part.mark.part is None:
        return TEXT, part.text
    if part.mark.part.type == TOOL_RESULT:
        return TOOL_RESULT, part.mark.part.call_id, part.text, part.mark.part.is_error
    return _part_signature(part.mark.part)


def signature(message: Message) -> Signature:
    """Return what must be equal between a message that was written and the one that was read back."""
    parts = message.parts or ([Part(TEXT, message.content)] if message.content else [])
    return message.role, message.id, tuple(_part_signature(part) for part in parts)


def _part_signature(part: Part) -> tuple[Any, ...]:
    if part.type == TOOL_CALL:
        return TOOL_CALL, part.id, part.name
    if part.type == TOOL_RESULT:
        return TOOL_RESULT, part.call_id, part.output, part.is_error
    return (TEXT, part.text) if part.type == TEXT else ("note", part.ref)


# ── the document ─────────────────────────────────────────────────────────────────────────────────────


def document(rendering: Rendering, key: str, title: str, project: str, model: Model) -> Iterator[bytes]:
    """Yield the document for `opencode import`, one message per line."""
    now = int(time.time() * 1000)
    total = sum(1 + sum(1 + (part.picture is not None) for part in message.parts) for message in rendering.native)
    # OpenCode sorts by id: ours are in the order of the conversation, and before those that it will assign next.
    # They come from the current time, not from the messages' times, because the ids wrap around every two years.
    numbers = iter(range((now << 12) - total, now << 12))
    times = _times(rendering.native, now)
    info = {
        "id": key,
        "slug": slug(title) or "conversation",
        "title": title,
        "version": OpenCode.tested_version,
        "time": {"created": times[0] if times else now, "updated": now},
    }
    yield msgspec.json.encode({"info": info})[:-1] + b',"messages":[\n'
    moment = Moments()
    user = ""
    for index, (message, created) in enumerate(zip(rendering.native, times, strict=True)):
        identity = _identity("msg_", next(numbers), message.of.id if message.of is not None else "")
        if message.role == USER:
            user = identity
        record = {"id": identity, "sessionID": key, **_message_info(message, created, user, project, model)}
        stamp = message.of.timestamp if message.of is not None else ""
        parts = []
        for number, part in enumerate(message.parts):
            if stamp != moment(created) and not part.mark.added:
                part.mark.timestamp = stamp
            owner = f"{message.of.id if message.of is not None else ''}/{number}"
            ids = {"id": _identity("prt_", next(numbers), owner), "sessionID": key, "messageID": identity}
            parts.append({**ids, **_part(part, created)})
            if part.picture is not None:
                ids["id"] = _identity("prt_", next(numbers), f"{owner}/image")
                parts.append({**ids, **_image(part.picture)})
        yield (b",\n" if index else b"") + msgspec.json.encode({"info": record, "parts": parts})
    yield b"\n]}\n"


def _message_info(message: NativeMessage, created: int, user: str, project: str, model: Model) -> dict[str, Any]:
    if message.role == USER:
        chosen = {"providerID": model.provider, "modelID": model.name}
        return {"role": USER, "time": {"created": created}, "agent": model.agent, "model": chosen}
    provider, name, output = "", "", 0
    if message.of is not None:
        provider, slash, name = message.of.model.partition("/")
        provider, name = (provider, name) if slash else ("", provider)
        output = message.of.tokens or 0
    return {
        "role": ASSISTANT,
        "parentID": user,
        "mode": model.agent,
        "agent": model.agent,
        "path": {"cwd": project, "root": project},
        "cost": 0,
        "tokens": {"input": 0, "output": output, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        "providerID": whole_characters(provider),
        "modelID": whole_characters(name),
        "time": {"created": created, "completed": created},
        "finish": "tool-calls" if any(part.tool for part in message.parts) else "stop",
    }


def _part(part: NativePart, created: int) -> dict[str, Any]:
    mark = {MARK: part.mark}
    if not part.tool:
        hidden = {"synthetic": True} if part.is_hidden else {}
        return {"type": "text", "text": part.text, "metadata": mark, **hidden}
    state: dict[str, Any] = {"input": part.input, "metadata": mark, "time": {"start": created, "end": created}}
    if part.failed:
        state |= {"status": "error", "error": part.output}
    else:
        state |= {"status": "completed", "output": part.output, "title": part.tool}
    return {"type": "tool", "tool": part.tool, "callID": part.call, "state": state}


def _image(picture: Picture) -> dict[str, Any]:
    name = picture.name or f"image.{picture.kind.partition('/')[2]}"
    url = f"data:{picture.kind};base64,{picture.base64}"
    return {"type": "file", "mime": picture.kind, "filename": os.path.basename(name), "url": url}


def _times(messages: Sequence[NativeMessage], now: int) -> list[int]:
    """Return the time of each message in milliseconds: never before the previous one, and not in the future."""
    times: list[int] = []
    earliest = 1
    for message in messages:
        seconds = clock.to_epoch(message.of.timestamp) if message.of is not None and message.of.timestamp else None
        earliest = max(earliest, min(round(seconds * 1000), now) if seconds is not None else earliest)
        times.append(earliest)
    if messages and messages[0].of is None:  # our note: with the first message
        times[0] = times[1] if len(times) > 1 else now
    return times


def _identity(prefix: str, number: int, owner: str) -> str:
    """Return an id in OpenCode's format; its letters depend only on `owner`."""
    digest = hashlib.blake2b(owner.encode("utf-8", "replace"), digest_size=16).digest()
    return f"{prefix}{number & ((1 << _ID_BITS) - 1):012x}{_letters(digest)}"


def _letters(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    letters = ""
    for _ in range(14):
        number, digit = divmod(number, len(_LETTERS))
        letters += _LETTERS[digit]
    return letters


def _title_from(messages: Sequence[Message]) -> str:
    text = next((message.text for message in messages if message.role == USER and message.text.strip()), "")
    return whole_characters(" ".join(text.split())[:60]) or "A continued conversation"


# ── verification ─────────────────────────────────────────────────────────────────────────────────────


def _verify(database: str, key: str, rendering: Rendering) -> None:
    """Read the session back; DamagedData unless it has the same messages, in the same order."""
    reading = DatabaseReading(Transcript(tool="", key=key, path=database))
    verify("OpenCode", rendering.expected, map(signature, reading), reading.counts, _same)


def _same(want: Signature, got: Signature) -> bool:
    # A message without an id gets one of OpenCode's.
    return (want[0], want[1] or got[1], want[2]) == got
