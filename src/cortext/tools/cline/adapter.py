"""The adapters for Cline, Roo Code and Kilo Code: extensions that keep each task in a folder of files.

The folder is in the extension's storage of every editor, and is named by the task's id. Newer versions of Cline keep
sessions in the user's home folder instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from typing import Any

from cortext.model.message import ASSISTANT, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import Detected, Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.bundle import BundleTool, Piece
from cortext.tools.shared.folders import beginning, listing, of_project, step_below
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.leftovers import described, renamed, unlisted
from cortext.tools.shared.lines import note, value_of
from cortext.tools.shared.program import LocalTool
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import field, list_of, moment, object_of, read_document, salvaged, word
from cortext.tools.shared.vscode import extension, extension_folders

HISTORY = "api_conversation_history.json"
OLD_HISTORY = "claude_messages.json"
SHOWN = "ui_messages.json"
ITEM = "history_item.json"
MESSAGES = ".messages.json"
_CLINE, _ROO, _KILO = "saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"
_HEAD_BYTES = 1 << 16
_PROJECT = re.compile(r"# Current (?:Working|Workspace) Directory \(([^)\n]+)\)")
_ENVIRONMENT = re.compile(r"\s*<environment_details>.*?</environment_details>\s*", re.DOTALL)
_WRAPPED = re.compile(r"<(task|feedback|user_message|answer|user_input)\b[^>]*>\s*(.*?)\s*</\1>", re.DOTALL)
_RESULT = re.compile(r"\[(\w+)(?: for .*?| to .*?)?\] Result:\s*", re.DOTALL)
_NOTES = ("[ERROR] You did not use a tool", "[TASK RESUMPTION]", "<mode_notice>", "# task_progress")
_PARAMETER = re.compile(r"<(\w+)>\n?(.*?)\n?</\1>", re.DOTALL)
# The calls that are not calls: the model speaks to the user, and the result is the user's answer.
_SPEAKING = {
    "attempt_completion": "result",
    "ask_followup_question": "question",
    "plan_mode_respond": "response",
    "act_mode_respond": "response",
}
_TAGGED = (
    *_SPEAKING,
    *("execute_command", "read_file", "write_to_file", "replace_in_file", "apply_diff", "insert_content"),
    *("search_and_replace", "search_files", "list_files", "list_code_definition_names", "codebase_search"),
    *("browser_action", "use_mcp_tool", "access_mcp_resource", "load_mcp_documentation", "fetch_instructions"),
    *("new_task", "switch_mode", "update_todo_list", "web_fetch", "condense", "new_rule"),
)
_CALL = re.compile(rf"<({'|'.join(_TAGGED)})>\n?(.*?)\n?</\1>\s*$", re.DOTALL)
_USERS = ("task", "user_feedback")
_ASSISTANTS = ("text", "completion_result", "plan_completion_result")


class Cline(BundleTool, LocalTool):
    """The adapter for Cline; it only reads."""

    name = "cline"
    title = "Cline"
    folder_variables = ("CLINE_DIR",)
    proof = "samples"
    extension = _CLINE

    def detect(self) -> Detected | None:
        """Return the version of the extension that an editor has; None if none has it."""
        return extension(self.home, self.extension)

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the tasks in every editor."""
        tasks = (os.path.join(folder, name) for folder in self._folders() for name in listing(folder))
        return of_project(map(self._task, tasks), project)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the folders of tasks without a file of a known name, and such files by other names."""
        known = {os.path.dirname(transcript.path) for transcript in listed}
        for folder in self._folders():
            for path in sorted(glob(os.path.join(folder, "*", ""))):
                task = path.rstrip(os.sep)
                if task not in known and os.listdir(task):
                    yield Leftover(task, f"not recognised as a task of {self.title}: it is {described(task)}")
                names = (HISTORY, OLD_HISTORY, SHOWN, ITEM, os.path.basename(task) + MESSAGES)
                paths = [os.path.join(task, name) for name in names]
                others = {other for path in paths for other in renamed(path, paths)} if task in known else ()
                yield from unlisted(sorted(others), listed, self.title)

    def watched(self) -> Watch:
        """Return the folders of all tasks."""
        return Watch(folders=self._folders())

    def changed(self, path: str) -> list[Transcript]:
        """Return the task whose folder a file is in."""
        for folder in self._folders():
            if name := step_below(folder, path):
                found = self._task(os.path.join(folder, name))
                return [found] if found is not None else []
        return []

    def _folders(self) -> list[str]:
        """Return the folders in which tasks are: of every editor, and outside of any."""
        tops = extension_folders(self.home, self.environ, self.extension)
        return [*(os.path.join(top, "tasks") for top in tops), *self._homes()]

    def _homes(self) -> list[str]:
        """Return the folders outside of any editor."""
        if self.extension != _CLINE:
            return []
        data = os.path.join(self.environ.get("CLINE_DIR") or os.path.join(self.home, ".cline"), "data")
        return [os.path.join(data, "tasks"), os.path.join(data, "sessions")]

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the task that a file belongs to, if it is the main file of one, or a copy."""
        owner = next((name for name in (_ROO, _KILO) if name in path.lower()), _CLINE)
        if owner == self.extension and os.path.basename(path).endswith((HISTORY, OLD_HISTORY, SHOWN, MESSAGES)):
            found = self._task(os.path.dirname(path))
            return found if found is not None and found.path == path else None
        return self.copied_transcript(path)

    def _task(self, folder: str) -> Transcript | None:

        key = os.path.basename(folder)
        names = [name for name in (HISTORY, OLD_HISTORY, key + MESSAGES, SHOWN) if _exists(folder, name)]
        if not names:
            return None
        statuses = [os.stat(os.path.join(folder, name)) for name in names]
        return Transcript(
            tool=self.name,
            key=key,
            path=os.path.join(folder, names[0]),
            project=project_of(folder),
            size=sum(status.st_size for status in statuses),
            changed=max(status.st_mtime_ns for status in statuses),
        )

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the files of a task that say something about the conversation."""
        folder, main = os.path.split(transcript.path)
        for name in dict.fromkeys((main, SHOWN, ITEM, f"{transcript.key}.json")):
            if _exists(folder, name):
                text = read_document(os.path.join(folder, name)).decode("utf-8", "replace")
                yield Piece("file", {"name": name.removeprefix(transcript.key), "text": text})

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these files."""
        return TaskReading(transcript, pieces)


class Roo(Cline):
    """The adapter for Roo Code."""

    name = "roo"
    title = "Roo Code"
    extension = _ROO


class Kilo(Cline):
    """The adapter for Kilo Code, as long as it was an extension made from Roo Code."""

    name = "kilo"
    title = "Kilo Code"
    extension = _KILO


def _exists(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def project_of(folder: str) -> str:
    """Return the folder that a task worked in: in the tool's own record, else in what the model was told first."""
    key = os.path.basename(folder)
    for name, member in ((ITEM, "workspace"), (f"{key}.json", "cwd")):
        if found := word(read_object(os.path.join(folder, name)), member):
            return found
    head = beginning(os.path.join(folder, HISTORY), _HEAD_BYTES).decode("utf-8", "replace")
    told = _PROJECT.search(head)
    return told[1] if told else ""


class TaskReading(WholeReading):
    """The messages of one task."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript)
        self._pieces = pieces
        self._spoken: set[str] = set()  # the calls that are words to the user
        self._tagged: dict[str, str] = {}  # tool: its last call in tags
        self._times: dict[int, Any] = {}  # index of a message: when it was shown

    def __iter__(self) -> Iterator[Message]:
        files = {text_of(piece.values.get("name")): text_of(piece.values.get("text")) for piece in self._pieces}
        item = object_of(files.get(ITEM, "")) or object_of(files.get(".json", ""))
        self.about.title = word(item, "task") or word(item, "metadata", "title") or word(item, "prompt")
        self.about.model = word(item, "model")
        created = word(item, "started_at") or self.transcript.key
        self.about.created_at = moment(int(created)) if created.isdigit() else moment(created)
        shown = [record for record in list_of(files.get(SHOWN, "")) or () if isinstance(record, dict)]
        for record in shown:
            index = record.get("conversationHistoryIndex")
            if isinstance(index, int):
                self._times.setdefault(index, record.get("ts"))
        for name in (HISTORY, OLD_HISTORY, MESSAGES):
            if name in files:
                yield from self.each(enumerate(self._records(files[name], name)), self._messages)
                return
        yield from self.each(enumerate(self._records(files.get(SHOWN, ""), SHOWN)), self._shown)

    def _records(self, text: str, name: str) -> list[Any]:
        """Return the records of a file: a list, or an object with one."""
        value = value_of(text.encode("utf-8", "replace"))
        listed = field(value, "messages") if isinstance(value, dict) else value
        if isinstance(listed, list):
            return listed
        self.damaged("document", name)
        return list(salvaged(text, lambda record: "role" in record or "say" in record or "ask" in record))

    def _messages(self, numbered: tuple[int, Any]) -> list[Message]:
        number, record = numbered
        if not isinstance(record, dict):
            raise TypeError
        role = {"user": USER, "assistant": ASSISTANT}.get(word(record, "role"))
        content = record.get("content")
        if record.get("isSummary") is True:
            self.about.summary = "\n\n".join(part.text for part in self.builder.parts(content, ""))
        if record.get("isSummary") is True or record.get("isTruncationMarker") is True:
            note(self.counts.skipped, "condensed context")
            return []
        if role is None:
            note(self.counts.unknown, f"message of role {word(record, 'role')}" if "role" in record else "without role")
            return []
        identity = word(record, "id") or self.builder.identity(self.transcript.key, role, str(content))
        reasoning = word(record, "text") or word(record, "reasoning_content")
        if content is None and word(record, "type") == "reasoning":
            content = []
        parts = self.builder.parts(content, f"{self.transcript.key}#{identity}")
        if reasoning and role == ASSISTANT:
            parts.insert(0, Part(THINKING, text=reasoning))
        parts = list(self._said(parts, identity) if role == ASSISTANT else self._asked(parts))
        model = word(record, "modelInfo", "modelId") or word(record, "modelInfo", "id")
        self.about.model = model or self.about.model
        return self.builder.messages(
            parts,
            role=role,
            identity=identity,
            timestamp=moment(record.get("ts") or self._times.get(number)),
            model=model if role == ASSISTANT else "",
        )

    def _said(self, parts: list[Part], identity: str) -> Iterator[Part]:
        """Yield the model's parts: a call in tags becomes a call, and a call that is words to the user becomes text."""
        for part in parts:
            found = _CALL.search(part.text) if part.type == TEXT else None
            if found is not None:
                if before := part.text[: found.start()].strip():
                    yield Part(TEXT, text=before)
                call = f"{identity}/call"
                self._tagged[found[1]] = call
                part = Part(TOOL_CALL, id=call, name=found[1], input=dict(_PARAMETER.findall(found[2])) or found[2])
            words = word(part.input, _SPEAKING[part.name]) if part.name in _SPEAKING else ""
            if words:
                self._spoken.add(part.id)
                yield Part(TEXT, text=words)
            else:
                yield part

    def _asked(self, parts: list[Part]) -> Iterator[Part]:
        """Yield what the user said and the results of calls, without what the tool added."""
        result: Part | None = None  # the result of a call in tags, which the following texts belong to
        for part in parts:
            if part.type == TOOL_RESULT and part.call_id in self._spoken:
                yield from self._words(part.output)
            elif part.type != TEXT:
                yield part
            elif (header := _RESULT.match(part.text)) is not None:
                rest = _ENVIRONMENT.sub("", part.text[header.end() :])
                call = self._tagged.pop(header[1], "")
                if result is not None:
                    yield result
                result = None
                if call in self._spoken:
                    yield from self._words(rest)
                else:
                    result = Part(TOOL_RESULT, call_id=call, name=header[1], output=rest)
            elif result is not None and not _WRAPPED.search(part.text):
                text = _ENVIRONMENT.sub("", part.text)
                result.output = "\n".join(piece for piece in (result.output, text) if piece)
            else:
                yield from self._words(part.text)
        if result is not None:
            yield result

    def _words(self, text: str) -> Iterator[Part]:
        """Yield the user's words in a text, if there are any."""
        wrapped = [found[2] for found in _WRAPPED.finditer(text)]
        plain = _ENVIRONMENT.sub("", text)
        words = "\n\n".join(piece for piece in wrapped if piece) if wrapped else plain.strip()
        if words and (wrapped or not words.startswith(_NOTES)):
            yield Part(TEXT, text=words)
        else:
            note(self.counts.skipped, "text of the tool itself")

    def _shown(self, numbered: tuple[int, Any]) -> list[Message]:
        """Return the message of a record of what was shown, if the tool kept nothing else."""
        number, record = numbered
        if not isinstance(record, dict):
            raise TypeError
        kind = word(record, "say") or word(record, "ask")
        text = word(record, "text")
        role = USER if kind in _USERS or number == 0 else ASSISTANT if kind in (*_ASSISTANTS, "followup") else ""
        if not role or not text:
            note(self.counts.skipped if kind else self.counts.unknown, kind or "without kind")
            return []
        text = (word(object_of(text), "question") or text) if kind == "followup" else text
        identity = self.builder.identity(self.transcript.key, role, text)
        return [Message(role=role, content=text, id=identity, timestamp=moment(record.get("ts")))]
