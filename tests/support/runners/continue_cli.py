"""Continue: one JSON document for each conversation in ~/.continue/sessions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.model_reply import Json
from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first, write_json


class Continue(Tool):
    """Continue: one JSON document for each conversation in ~/.continue/sessions."""

    name = "continue"
    store = ".continue/sessions"
    shell_tool = "Bash"

    def configure(self) -> None:
        self.env["CONTINUE_TELEMETRY_ENABLED"] = "0"
        self._configure_model(MODEL)
        (self.home / ".continue" / ".onboarding_complete").touch()

    def choose_another_model(self) -> None:
        self._configure_model(ANOTHER_MODEL)

    def _configure_model(self, model: str) -> None:
        provider = {"provider": "openai", "apiBase": f"{self.server_url}/v1", "apiKey": API_KEY}
        models = [{"name": model, "model": model, "roles": ["chat"], **provider}]
        config = {"name": "test", "version": "0.0.1", "schema": "v1", "models": models}
        write_json(self.home / ".continue" / "config.yaml", config)  # JSON is YAML

    def trust(self, project: Path) -> None:
        pass  # it trusts every folder

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = self._resumed(resume)
        return [self.program, "-p", "--auto", *resumed, *extra, "--", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        return [self.program, *self._resumed(resume), *(["--", prompt] if prompt else [])]

    def _resumed(self, key: str | None) -> list[str]:
        """Make a session the one that changed last, because it is the one that `--resume` opens."""
        if key is None:
            return []
        ahead = time.time() + 60
        os.utime(self.home / ".continue" / "sessions" / f"{key}.json", (ahead, ahead))
        return ["--resume"]

    def transcripts(self) -> list[Path]:
        files = (self.home / ".continue" / "sessions").glob("*.json")
        return oldest_first(path for path in files if path.name != "sessions.json")

    def sessions(self) -> list[str]:
        return [path.stem for path in self.transcripts()]

    def records(self) -> list[Json]:
        """Return every item of every conversation."""
        return [item for path in self.transcripts() for item in json.loads(path.read_text())["history"]]
