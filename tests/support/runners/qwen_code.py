"""Qwen Code: JSON Lines below ~/.qwen/projects/<project>/chats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first, write_json


class QwenCode(Tool):
    """Qwen Code: JSON Lines below ~/.qwen/projects/<project>/chats."""

    name = "qwen-code"
    store = ".qwen/projects"
    shell_tool = "run_shell_command"

    def configure(self) -> None:
        # Without this it restarts itself to get more memory.
        self.env["QWEN_CODE_NO_RELAUNCH"] = "true"
        self._configure_model(MODEL)

    def choose_another_model(self) -> None:
        self._configure_model(ANOTHER_MODEL)

    def _configure_model(self, model: str) -> None:
        provider = {"selectedType": "openai", "apiKey": API_KEY, "baseUrl": f"{self.server_url}/v1"}
        write_json(
            self.home / ".qwen" / "settings.json",
            {
                "security": {"auth": provider},
                "model": {"name": model},
                # Its background agents would ask the model questions of their own after each turn.
                "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
                "ui": {"enableFollowupSuggestions": False},
                "general": {"enableAutoUpdate": False},
                "privacy": {"usageStatisticsEnabled": False},
            },
        )

    def trust(self, project: Path) -> None:
        pass  # it asks only if the user turned that on

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, "--approval-mode", "yolo", *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *(["-i", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".qwen" / "projects").glob("*/chats/*.jsonl"))

    def sessions(self) -> list[str]:
        return [path.stem for path in self.transcripts()]
