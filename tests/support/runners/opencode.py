"""OpenCode: an SQLite database below XDG_DATA_HOME."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.model_reply import Json
from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, write_json


class OpenCode(Tool):
    """OpenCode: an SQLite database below XDG_DATA_HOME."""

    name = "opencode"
    store = ".local/share/opencode"
    shell_tool = "bash"

    def configure(self) -> None:
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
        self.env |= {f"OPENCODE_DISABLE_{what}": "1" for what in off}
        folder = self.home / ".config" / "opencode"
        # Without it each start reads its own catalogue of thousands of models: 7 s of CPU instead of 4.
        self.env["OPENCODE_MODELS_PATH"] = str(folder / "models.json")
        write_json(folder / "models.json", {})
        self._configure_model("test", MODEL)
        self.settle(folder)

    def choose_another_model(self) -> None:
        self._configure_model("another", ANOTHER_MODEL)

    def _configure_model(self, name: str, model: str) -> None:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Test",
            "options": {"baseURL": f"{self.server_url}/v1", "apiKey": API_KEY},
            "models": {
                model: {
                    "name": "Test model",
                    "limit": {"context": 200_000, "output": 8_000},
                    "attachment": True,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                }
            },
        }
        settings = {
            "$schema": "https://opencode.ai/config.json",
            "model": f"{name}/{model}",
            "small_model": f"{name}/{model}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "provider": {name: provider},
        }
        write_json(self.home / ".config" / "opencode" / "opencode.json", settings)

    def trust(self, project: Path) -> None:
        pass  # it never asks

    @staticmethod
    def settle(folder: Path) -> None:
        """Make a config folder look installed: otherwise, with a plugin in it, a start waits a minute for npm."""
        (folder / "node_modules").mkdir(parents=True, exist_ok=True)
        # It only compares the names in the lock file's root with those it wants.
        root = {"dependencies": {"@opencode-ai/plugin": "*"}}
        write_json(folder / "package-lock.json", {"lockfileVersion": 3, "packages": {"": root}})

    @property
    def database(self) -> Path:
        """The database with all conversations."""
        return self.home / ".local/share" / "opencode" / "opencode.db"

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["-s", resume] if resume else []
        return [self.program, "run", *resumed, *extra]

    def headless_stdin(self, prompt: str) -> str:
        # An argument with a space would reach the model in quotation marks.
        return prompt

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["-s", resume] if resume else []
        return [self.program, *resumed, *(["--prompt", prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return [self.database] if self.database.exists() else []

    def files_of(self, key: str) -> Path:
        return self.database

    def sessions(self) -> list[str]:
        return [row[0] for row in self._query("SELECT id FROM session ORDER BY time_created, id")]

    def records(self) -> list[Json]:
        messages = self._query("SELECT id, data FROM message ORDER BY time_created, id")
        parts = self._query("SELECT message_id, data FROM part ORDER BY id")
        return [
            {
                "id": message,
                "info": json.loads(data),
                "parts": [json.loads(part) for owner, part in parts if owner == message],
            }
            for message, data in messages
        ]

    def _query(self, sql: str) -> list[Any]:
        if not self.database.exists():
            return []
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
