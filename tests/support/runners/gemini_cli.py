"""Gemini CLI: JSON Lines below ~/.gemini/tmp/<project>/chats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, Tool, oldest_first, write_json


class GeminiCli(Tool):
    """Gemini CLI: JSON Lines below ~/.gemini/tmp/<project>/chats."""

    name = "gemini-cli"
    store = ".gemini/tmp"
    shell_tool = "run_shell_command"

    def configure(self) -> None:
        self.env |= {
            "GEMINI_API_KEY": API_KEY,
            "GOOGLE_GEMINI_BASE_URL": self.server_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            # Without this it restarts itself to get more memory.
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        write_json(
            self.home / ".gemini" / "settings.json",
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                # Its retention can delete a conversation that was resumed.
                "general": {
                    "sessionRetention": {"enabled": False},
                    "enableAutoUpdate": False,
                    "enableAutoUpdateNotification": False,
                },
                "privacy": {"usageStatisticsEnabled": False},
            },
        )

    def choose_another_model(self) -> None:
        self.env["GEMINI_MODEL"] = ANOTHER_MODEL

    def trust(self, project: Path) -> None:
        pass  # an environment variable trusts every folder

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, "--approval-mode", "yolo", *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *(["-i", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".gemini" / "tmp").glob("*/chats/session-*.jsonl"))

    def files_of(self, key: str) -> Path:
        return next(path for path in self.transcripts() if key in path.read_text(encoding="utf-8").splitlines()[0])

    def sessions(self) -> list[str]:
        # A resumed conversation may continue in a second file with the same id.
        first_lines = [path.read_text(encoding="utf-8").splitlines()[0] for path in self.transcripts()]
        return list(dict.fromkeys(json.loads(line)["sessionId"] for line in first_lines))
