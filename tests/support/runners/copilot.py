"""GitHub Copilot CLI: JSON Lines in ~/.copilot/session-state/<id>/events.jsonl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first, write_json


class Copilot(Tool):
    """GitHub Copilot CLI: JSON Lines in ~/.copilot/session-state/<id>/events.jsonl."""

    name = "copilot"
    store = ".copilot/session-state"
    shell_tool = "bash"

    def configure(self) -> None:
        self.env |= {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": f"{self.server_url}/v1",
            "COPILOT_PROVIDER_API_KEY": API_KEY,
            "COPILOT_MODEL": MODEL,
        }

    def choose_another_model(self) -> None:
        self.env |= {"COPILOT_MODEL": ANOTHER_MODEL, "COPILOT_PROVIDER_TYPE": "anthropic"}

    def trust(self, project: Path) -> None:
        path = self.home / ".copilot" / "config.json"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ["{}"]
        settings = json.loads("\n".join(line for line in lines if not line.startswith("//")))
        folders = settings.setdefault("trustedFolders", [])
        if str(project) not in folders:
            folders.append(str(project))
            write_json(path, settings)

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = [f"--resume={resume}"] if resume else []
        return [self.program, "--allow-all-tools", *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = [f"--resume={resume}"] if resume else []
        return [self.program, *resumed, *(["-i", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".copilot" / "session-state").glob("*/events.jsonl"))

    def files_of(self, key: str) -> Path:
        return super().files_of(key).parent

    def sessions(self) -> list[str]:
        return [path.parent.name for path in self.transcripts()]
