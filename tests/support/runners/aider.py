"""Aider: one Markdown file for all conversations of a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool


class Aider(Tool):
    """Aider: one Markdown file for all conversations of a project. It has no tools that a model could call.

    A conversation is resumed from a chat history: `resume` is the path of one, or the id of one that cortext wrote.
    """

    name = "aider"
    shell_tool = ""

    def configure(self) -> None:
        self._projects: list[Path] = []
        self.env |= {
            "OPENAI_API_BASE": f"{self.server_url}/v1",
            "OPENAI_API_KEY": API_KEY,
            "AIDER_MODEL": f"openai/{MODEL}",
            "AIDER_ANALYTICS": "false",
            "AIDER_CHECK_UPDATE": "false",
            "AIDER_SHOW_MODEL_WARNINGS": "false",
            "AIDER_SHOW_RELEASE_NOTES": "false",
            "AIDER_GIT": "false",  # it would create a repository
            "AIDER_EDIT_FORMAT": "ask",  # it would take code in an answer for an edit
            "AIDER_MAX_CHAT_HISTORY_TOKENS": "1000000",  # it would ask the model for summaries
        }

    def choose_another_model(self) -> None:
        self.env |= {
            "ANTHROPIC_API_BASE": self.server_url,
            "ANTHROPIC_API_KEY": API_KEY,
            "AIDER_MODEL": f"anthropic/{ANOTHER_MODEL}",
        }

    def trust(self, project: Path) -> None:
        self._projects.append(project)  # it never asks, but its files are there

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        # From a file: it records its command line in the history.
        message = self.home / "tmp" / "message.txt"
        message.write_text(prompt, encoding="utf-8")
        return [self.program, "--yes-always", *self._restored(resume), *extra, "--message-file", str(message)]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        return [self.program, *self._restored(resume)]

    def _restored(self, resume: str | None) -> list[str]:
        if not resume:
            return []
        path = resume if "/" in resume else str(self.home / ".local/share/cortext/aider" / f"{resume}.md")
        return ["--chat-history-file", path, "--restore-chat-history"]

    def transcripts(self) -> list[Path]:
        paths = [project / ".aider.chat.history.md" for project in self._projects]
        return [path for path in paths if path.exists()]

    def sessions(self) -> list[str]:
        return [str(path) for path in self.transcripts()]
