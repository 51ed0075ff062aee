"""Claude Code: JSON Lines below ~/.claude/projects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, Tool, oldest_first, write_json


class ClaudeCode(Tool):
    """Claude Code: JSON Lines below ~/.claude/projects."""

    name = "claude-code"
    store = ".claude/projects"
    shell_tool = "Bash"

    def configure(self) -> None:
        self.env |= {
            "ANTHROPIC_BASE_URL": self.server_url,
            "ANTHROPIC_API_KEY": API_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        allowed = ["Bash", "Read", "Write", "Edit", "Glob", "Grep"]
        write_json(self.home / ".claude" / "settings.json", {"permissions": {"allow": allowed}})
        # Without these three the first screen asks for a theme, for the key, and for trust in the folder.
        onboarded = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {}}
        key = {"customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []}}
        if not (self.home / ".claude.json").exists():  # a home that was used before keeps its state
            write_json(self.home / ".claude.json", {**onboarded, **key})

    def choose_another_model(self) -> None:
        self.env["ANTHROPIC_MODEL"] = ANOTHER_MODEL

    def trust(self, project: Path) -> None:
        path = self.home / ".claude.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["projects"][str(project)] = {"hasTrustDialogAccepted": True}
        write_json(path, settings)

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".claude" / "projects").glob("*/*.jsonl"))

    def sessions(self) -> list[str]:
        return [path.stem for path in self.transcripts()]
