"""Sessions of Qwen Code for the tests, with the records as version 0.24.4 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEY = "0563b692-eb95-4476-af0a-d6481ff4bc12"
PROJECT = "/work/boats"

Json = dict[str, Any]


class Chat:
    """A session: each method appends a record after the previous one, and returns its id."""

    def __init__(self) -> None:
        self.records: list[Json] = []
        self.last: str | None = None

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The lines of the file."""
        return tuple(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() for record in self.records)

    def save(self, home: Path, project: str = PROJECT) -> Path:
        """Write the file where Qwen Code has it."""
        path = home / ".qwen/projects" / project.replace("/", "-") / "chats" / f"{KEY}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in self.lines))
        return path

    def add(self, kind: str, **fields: Any) -> str:
        """Append a record of any kind."""
        number = len(self.records)
        record = {
            "uuid": f"00000000-0000-4000-8000-{number:012d}",
            "parentUuid": self.last,
            "sessionId": KEY,
            "timestamp": f"2026-11-17T12:{number // 60:02d}:{number % 60:02d}.419Z",
            "type": kind,
            "cwd": PROJECT,
            "version": "0.24.4",
            **fields,
        }
        self.records.append(record)
        self.last = str(record["uuid"])
        return self.last

    def user(self, *texts: str, **fields: Any) -> str:
        """Append what the user said."""
        return self.add("user", message={"role": "user", "parts": [{"text": text} for text in texts]}, **fields)

    def answer(self, *parts: Json) -> str:
        """Append an answer of the model."""
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return self.add(
            "assistant", model="test-model", message={"role": "model", "parts": list(parts)}, usageMetadata=usage
        )

    def result(self, call: str, answer: Json, status: str = "success") -> str:
        """Append the result of a call."""
        part = {"functionResponse": {"id": call, "name": "run_shell_command", "response": answer}}
        shown = {"callId": call, "status": status, "resultDisplay": "shown"}
        return self.add("tool_result", message={"role": "user", "parts": [part]}, toolCallResult=shown)

    def system(self, kind: str, **payload: Any) -> str:
        """Append a system record."""
        return self.add("system", subtype=kind, systemPayload=payload)


def text(words: str) -> Json:
    """Return a part with text."""
    return {"text": words}


def call(key: str, command: str) -> Json:
    """Return a part with a tool call."""
    return {"functionCall": {"id": key, "name": "run_shell_command", "args": {"command": command}}}


HOOK = "<qwen:user-prompt-submit-context>\n{}\n</qwen:user-prompt-submit-context>"
RESUMED = "[RESUMED CONVERSATION]\nwhat was said before"


def everyday() -> Chat:
    """Return a session with every kind of record that contains a message, and some that do not."""
    chat = Chat()
    chat.user("Read note.txt, Ünïcode: 答え")
    chat.system("attribution_snapshot", snapshot={"version": 1})
    chat.system("ui_telemetry", uiEvent={"event.name": "qwen-code.api_response", "response_text": "Let me look."})
    chat.answer(
        {"text": "hm", "thought": True}, text("Let me look."), call("c1", "cat note.txt"), call("c2", "cat gone.txt")
    )
    chat.result("c1", {"output": "the heron\n"})
    chat.result("c2", {"error": "no such file"}, "error")
    chat.answer(text("It stands still."))
    chat.system("custom_title", customTitle="The heron", titleSource="auto")
    chat.system("at_command", filesRead=["a.txt"], status="success", userText="See @a.txt")
    chat.user(
        "See @a.txt",
        "\n--- Content from referenced files ---",
        "\nContent from a.txt:\n",
        "seventeen\n",
        "\n--- End of content ---",
    )
    chat.answer(text("Seen."))
    chat.user(
        "Plan for boats, at length.",
        HOOK.format("kept in plan.md"),
        systemPayload={"displayText": "/workspace.plan boats", "hookContext": "kept in plan.md"},
    )
    chat.answer(text("Planned."))
    chat.user("More.\n\n<!-- cortext:command workspace.plan -->geese<!-- cortext:end -->\n")
    chat.system("slash_command", phase="invocation", rawCommand="/about")
    chat.user("quick, please", subtype="mid_turn_user_message", systemPayload={"displayText": "quick, please"})
    chat.user("A task has ended.", subtype="notification", provenance="system")
    chat.user("go on")
    chat.system("chat_compression", compressedHistory=[{"role": "user", "parts": [text("They talked.")]}])
    chat.answer(text("Going on."))
    return chat


EVERYDAY = (
    ("user", "Read note.txt, Ünïcode: 答え"),
    ("assistant", "Let me look."),
    ("tool", "the heron\n"),
    ("tool", "no such file"),
    ("assistant", "It stands still."),
    ("user", "See @a.txt"),
    ("user", "[attached: a.txt]\nseventeen\n"),
    ("assistant", "Seen."),
    ("user", "/workspace.plan boats"),
    ("assistant", "Planned."),
    ("user", "/workspace.plan geese"),
    ("user", "quick, please"),
    ("user", "A task has ended."),
    ("user", "go on"),
    ("assistant", "Going on."),
)
