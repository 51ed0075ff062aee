"""A Claude Code conversation as seen through its files and hooks, for tests without the real program."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path

from cortext.model import clock
from tests.support.cli import Ran, cortext


class ClaudeTalk:
    """One Claude Code session in a project: writes its transcript and fires its hooks."""

    def __init__(self, project: Path, key: str | None = None, *, real_time: bool = False) -> None:
        self.project = project
        self._real_time = real_time  # otherwise one message per minute, on a day in the past
        self.key = key or str(uuid.uuid4())
        folder = Path(os.environ["HOME"]) / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(project))
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.key}.jsonl"
        self._parent: str | None = None
        self._minute = 0

    def hook(self, event: str, **fields: object) -> Ran:
        """Fire one hook as the program does."""
        payload = {
            "session_id": self.key,
            "transcript_path": str(self.path),
            "cwd": str(self.project),
            "hook_event_name": event,
            **fields,
        }
        return cortext("hook", "claude", cwd=self.project, stdin=json.dumps(payload))

    def prompt(self, text: str) -> Ran:
        """Send a prompt: the hook fires, then the record is written."""
        done = self.hook("UserPromptSubmit", prompt=text)
        command = re.match(r"/(\S+)\s*(.*)", text, re.DOTALL)
        if command:
            name, words = command.groups()
            self.hook(
                "UserPromptExpansion",
                expansion_type="slash_command",
                command_name=name,
                command_args=words,
                command_source="projectSettings",
                prompt=text,
            )
            text = (
                f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
                f"<command-args>{words}</command-args>"
            )
        self._record("user", {"role": "user", "content": text})
        return done

    def resume(self, words: str = "") -> str:
        """Run `/workspace.resume` (the hook, the command file's program, an answer); return the program's output."""
        self.prompt(f"/workspace.resume {words}".rstrip())
        env = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": self.key}
        said = cortext("resume", "--in-tool", words, cwd=self.project, env=env)
        assert said.code == 0, said.err
        self.answer("So it is.")
        return said.out

    def answer(self, text: str) -> Ran:
        """Write the model's answer and end the turn."""
        self._answered(text)
        return self.hook("Stop", stop_hook_active=False, last_assistant_message=text)

    def _answered(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self._record(
            "assistant",
            {
                "id": f"msg_{uuid.uuid4().hex[:20]}",
                "type": "message",
                "role": "assistant",
                "model": "claude-test",
                "content": content,
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 5},
            },
        )

    def end(self) -> Ran:
        """Close the program."""
        return self.hook("SessionEnd", reason="prompt_input_exit")

    def say(self, *turns: str) -> None:
        """Write messages, user and assistant alternately."""
        for index, text in enumerate(turns):
            (self.prompt if index % 2 == 0 else self.answer)(text)

    def write(self, said: str, answered: str) -> None:
        """Write a turn without firing a hook; with an empty prompt, only the answer."""
        if said:
            self._record("user", {"role": "user", "content": said})
        self._answered(answered)

    def note_tools(self, *names: str) -> None:
        """Write the record of the tools that the model has from now on."""
        self._record(
            "attachment",
            {},
            attachment={
                "type": "deferred_tools_delta",
                "addedNames": list(names),
                "addedLines": list(names),
                "removedNames": [],
                "pendingMcpServers": [],
                "failedMcpServers": [],
            },
        )

    def note_title(self, title: str) -> None:
        """Write the record of a title that the program made."""
        self._record("ai-title", {}, aiTitle=title)

    def note_skills(self, *names: str) -> None:
        """Write the record of the skills that the model has from now on."""
        listing = {"type": "skill_listing", "content": "\n".join(names), "names": list(names), "isInitial": True}
        self._record("attachment", {}, attachment={**listing, "skillCount": len(names)})

    def summarise(self, summary: str) -> None:
        """Write the records of a compaction, without firing a hook."""
        self._record("system", {}, subtype="compact_boundary", parentUuid=None, logicalParentUuid=self._parent)
        self._record(
            "user", {"role": "user", "content": summary}, isCompactSummary=True, isVisibleInTranscriptOnly=True
        )

    def _record(self, kind: str, message: dict[str, object], **more: object) -> None:
        name = str(uuid.uuid4())
        self._minute += 1
        record = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "type": kind,
            "message": message,
            "uuid": name,
            "timestamp": clock.now() if self._real_time else f"2026-11-14T10:{self._minute % 60:02d}:00.000Z",
            "userType": "external",
            "cwd": str(self.project),
            "sessionId": self.key,
            "version": "2.1.325",
            "gitBranch": "main",
            **more,
        }
        self._parent = name
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
