"""Read a task of Cline, Roo Code or Kilo Code: what was sent to the model, without what the tool added to it.

Older versions let the model write its calls as tags in the text, and gave it the results as text of the user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cortext.io import durable
from cortext.model.message import ASSISTANT, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.base import Transcript
from cortext.tools.cline.adapter import HISTORY, ITEM, MESSAGES, OLD_HISTORY, SHOWN
from cortext.tools.shared.building import MessageBuilder
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.documents import list_of, object_of, salvaged
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.lines import note, value_of
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.sqlite import text_of
from cortext.tools.shared.values import field, moment, word

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


def project_of(folder: str) -> str:
    """Return the folder that a task worked in: in the tool's own record, else in what the model was told first."""
    key = os.path.basename(folder)
    for name, member in ((ITEM, "workspace"), (f"{key}.json", "cwd")):
        if found := word(read_object(os.path.join(folder, name)), member):
            return found
    try:
        with open(os.path.join(folder, HISTORY), "rb", opener=durable.plain_file) as file:
            head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    told = _PROJECT.search(head)
    return told[1] if told else ""


class TaskReading(WholeReading):
    """The messages of one task."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript)
        self._pieces = pieces
        self._builder = MessageBuilder(self.about, self.counts)
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
            self.about.summary = "\n\n".join(part.text for part in self._builder.parts(content, ""))
        if record.get("isSummary") is True or record.get("isTruncationMarker") is True:
            note(self.counts.skipped, "condensed context")
            return []
        if role is None:
            note(self.counts.unknown, f"message of role {word(record, 'role')}" if "role" in record else "without role")
            return []
        identity = word(record, "id") or self._builder.identity(self.transcript.key, role, str(content))
        reasoning = word(record, "text") or word(record, "reasoning_content")
        if content is None and word(record, "type") == "reasoning":
            content = []
        parts = self._builder.parts(content, f"{self.transcript.key}#{identity}")
        if reasoning and role == ASSISTANT:
            parts.insert(0, Part(THINKING, text=reasoning))
        parts = list(self._said(parts, identity) if role == ASSISTANT else self._asked(parts))
        model = word(record, "modelInfo", "modelId") or word(record, "modelInfo", "id")
        self.about.model = model or self.about.model
        return self._builder.messages(
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
        identity = self._builder.identity(self.transcript.key, role, text)
        return [Message(role=role, content=text, id=identity, timestamp=moment(record.get("ts")))]
