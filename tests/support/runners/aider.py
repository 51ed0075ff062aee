"""Aider: one Markdown file for all conversations of a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import API_KEY, MODEL, Tool


class Aider(Tool):
    """Aider: one Markdown file for all conversations of a project."""

    name = "aider"
    shell_tool = ""

    def configure(self) -> None:
        self.env |= {
            "OPENAI_API_BASE": f"{self.server_url}/v1",
            "OPENAI_API_KEY": API_KEY,
            "AIDER_MODEL": f"openai/{MODEL}",
            "AIDER_ANALYTICS": "false",
            "AIDER_CHECK_UPDATE": "false",
            "AIDER_SHOW_MODEL_WARNINGS": "false",
        }

    def trust(self, project: Path) -> None:
        pass

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        return [self.program, "--yes-always", *extra, "--message", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        return [self.program]

    def transcripts(self) -> list[Path]:
        return []

    def sessions(self) -> list[str]:
        return []
