"""gptme: a folder below XDG_DATA_HOME/gptme/logs for each conversation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import API_KEY, MODEL, Tool, oldest_first


class Gptme(Tool):
    """gptme: a folder below XDG_DATA_HOME/gptme/logs for each conversation."""

    name = "gptme"
    shell_tool = "shell"

    def configure(self) -> None:
        self.env |= {
            "OPENAI_BASE_URL": f"{self.server_url}/v1",
            "OPENAI_API_KEY": API_KEY,
            "MODEL": f"local/{MODEL}",
            # It would ask the model for a title after each of the first turns.
            "GPTME_AUTO_NAMING": "0",
        }

    def trust(self, project: Path) -> None:
        pass  # it never asks

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--name", resume] if resume else []
        return [self.program, "--non-interactive", *resumed, *extra, "--", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--name", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".local/share" / "gptme" / "logs").glob("*/conversation.jsonl"))

    def sessions(self) -> list[str]:
        return [path.parent.name for path in self.transcripts()]
