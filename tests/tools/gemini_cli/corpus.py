"""Synthetic transcripts of Gemini CLI with every kind of record that it writes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, Self

from cortext.model.message import Message
from cortext.tools.base import Transcript
from cortext.tools.gemini_cli.read import GeminiReading

KEY = "1bd1c5df-5f75-4f50-b786-51318336b280"
CONTEXT_ID = "d04923d38bb0f6017037e74183378ef4"
CONTEXT = "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n</session_context>"
Json = dict[str, Any]


def uuid(number: int) -> str:
    return f"{number:08x}-8313-4d1f-a615-1ebb6bdd9ef4"


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer(call_id: str, name: str, output: str) -> Json:
    return {"functionResponse": {"id": call_id, "name": name, "response": {"output": output}}}


class Chat:
    """A transcript as Gemini CLI appends it, line by line."""

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.lines: list[bytes] = []
        self._numbers = itertools.count(1)
        self.opening()

    def now(self) -> str:
        second = len(self.lines)
        return f"2026-11-15T02:{second // 60 % 60:02d}:{second % 60:02d}.469Z"

    def put(self, value: Any) -> Self:
        self.lines.append(compact(value))
        return self

    def opening(self, **more: Any) -> Self:
        start = {"sessionId": self.key, "projectHash": "eb2f" * 16, "startTime": self.now(), "lastUpdated": self.now()}
        return self.put({**start, "kind": "main", **more})

    def time(self) -> Self:
        return self.put({"$set": {"lastUpdated": self.now()}})

    def record(self, kind: str, content: Any, **more: Any) -> Json:
        return {"id": uuid(next(self._numbers)), "timestamp": self.now(), "type": kind, "content": content, **more}

    def context(self) -> Json:
        text = {"text": CONTEXT}
        return {"id": CONTEXT_ID, "timestamp": self.now(), "type": "user", "content": [text]}

    def begin(self) -> Self:
        return self.put({"$set": {"messages": [self.context()], "lastUpdated": self.now()}})

    def user(self, text: str, **more: Any) -> Json:
        record = self.record("user", [{"text": text}], **more)
        self.put(record).time()
        return record

    def model(self, text: str, calls: list[Json] | None = None, thoughts: list[str] | None = None) -> Json:
        """Append an answer as it is stored: on arrival, again when its calls are done, then the results once more."""
        found = [{"subject": "", "description": thought, "timestamp": self.now()} for thought in thoughts or ()]
        tokens = {"input": 10, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 15}
        record = self.record("gemini", text, thoughts=found, tokens=tokens, model="gemini-3.8-flash")
        self.put(record).time()
        if calls:
            record = {**record, "toolCalls": calls}
            self.put(record)
            self.put(self.record("user", [part for call in calls for part in call.get("result") or ()])).time()
        return record

    def call(self, name: str, output: str | None, status: str = "success", **args: Any) -> Json:
        call_id = f"{name}__{name}_{next(self._numbers)}_0"
        call: Json = {"id": call_id, "name": name, "args": args, "status": status, "timestamp": self.now()}
        if output is not None:
            call |= {"result": [answer(call_id, name, output)], "resultDisplay": output, "displayName": name}
        return call

    def replace(self, *records: Json) -> Self:
        return self.put({"$set": {"messages": list(records), "lastUpdated": self.now()}})

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def save(self, folder: Path) -> Path:
        path = folder / f"session-2026-11-15T02-10-{self.key[:8]}.jsonl"
        path.write_bytes(self.data)
        return path


def everyday() -> Chat:
    """Return a conversation with a thought, two calls (one failed), and a second turn."""
    chat = Chat().begin()
    chat.user("Read note.txt, Ünïcode: 答え")
    first = chat.call("run_shell_command", "the heron stands still", command="cat note.txt")
    second = chat.call("read_file", "no such file", "error", path="boat.txt")
    chat.model("Let me look.", [first, second], ["I should read the note first."])
    chat.model("The heron stands still.")
    chat.user("And now?")
    chat.model("Now we go.")
    return chat


# Its messages: role and text.
EVERYDAY = (
    ("user", "Read note.txt, Ünïcode: 答え"),
    ("assistant", "Let me look."),
    ("assistant", ""),
    ("tool", "the heron stands still"),
    ("tool", "no such file"),
    ("assistant", "The heron stands still."),
    ("user", "And now?"),
    ("assistant", "Now we go."),
)


def resumed(chat: Chat, records: list[Json], *, same_minute: bool = True) -> Chat:
    """Append a resume: Gemini CLI rewrites the whole history in another form."""
    if same_minute:
        chat.opening().begin()
    chat.put({"$set": {"sessionId": chat.key}})
    history: list[Json] = [chat.context()]
    for record in records:
        calls = record.get("toolCalls") or []
        if record["type"] == "gemini":
            text = [{"text": record["content"]}] if record["content"] else []
            requests = [{"functionCall": {key: call[key] for key in ("id", "name", "args")}} for call in calls]
            history.append({**record, "content": [*text, *requests]})
            if calls:
                parts = [part for call in calls for part in call.get("result") or ()]
                history.append({"id": f"{record['id']}_response", "type": "user", "content": parts})
        else:
            history.append(record)
    return chat.replace(*history)


def read(
    path: Path, cursor: Json | None = None, agents: list[str] | None = None
) -> tuple[list[Message], GeminiReading]:
    reading = GeminiReading(Transcript(tool="gemini", key=KEY, path=str(path)), cursor, agents or [])
    return list(reading), reading


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if message.text]
