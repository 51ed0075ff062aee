"""Pi: JSON Lines below ~/.pi/agent/sessions/<project>."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first, write_json


class Pi(Tool):
    """Pi: JSON Lines below ~/.pi/agent/sessions/<project>."""

    name = "pi"
    store = ".pi/agent/sessions"
    shell_tool = "bash"

    @property
    def folder(self) -> Path:
        """The folder of its settings and sessions."""
        return self.home / ".pi" / "agent"

    def configure(self) -> None:
        self.env |= {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
        self._configure_model("test", MODEL)

    def choose_another_model(self) -> None:
        self._configure_model("another", ANOTHER_MODEL)

    def _configure_model(self, provider: str, model: str) -> None:
        free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        known = {"id": model, "name": model, "reasoning": False, "input": ["text"], "cost": free}
        known |= {"contextWindow": 200_000, "maxTokens": 8_000}
        server = {"baseUrl": f"{self.server_url}/v1", "api": "openai-completions", "apiKey": API_KEY, "models": [known]}
        write_json(self.folder / "models.json", {"providers": {provider: server}})
        write_json(self.folder / "settings.json", {"defaultProvider": provider, "defaultModel": model})

    def trust(self, project: Path) -> None:
        path = self.folder / "trust.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        write_json(path, {**known, str(project): True})

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--session", resume] if resume else []
        return [self.program, *resumed, *extra, "-p", "--", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--session", resume] if resume else []
        return [self.program, *resumed, *(["--", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.folder / "sessions").glob("*/*.jsonl"))

    def sessions(self) -> list[str]:
        # 2026-11-17T12-43-27-419Z_<uuid>.jsonl
        return [path.stem.partition("_")[2] for path in self.transcripts()]
