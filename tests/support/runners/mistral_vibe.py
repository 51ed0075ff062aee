"""Mistral Vibe: a folder per conversation below ~/.vibe/logs/session/unified."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.support.model_reply import Reply
from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first


class MistralVibe(Tool):
    """Mistral Vibe: a folder per conversation below ~/.vibe/logs/session/unified."""

    name = "mistral-vibe"
    store = ".vibe/logs"
    shell_tool = "bash"

    def configure(self) -> None:
        self.env |= {"MISTRAL_API_KEY": API_KEY}
        self._configure_model("test", MODEL)

    def choose_another_model(self) -> None:
        self._configure_model("another", ANOTHER_MODEL)

    def _configure_model(self, provider: str, name: str) -> None:
        path = self.home / ".vibe" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"""\
active_model = "{provider}"
enable_update_checks = false
enable_telemetry = false

[[providers]]
name = "{provider}"
api_base = "{self.server_url}/v1"
api_key_env_var = "MISTRAL_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "{name}"
provider = "{provider}"
alias = "{provider}"
""",
            encoding="utf-8",
        )

    def shell(self, command: str) -> Reply:
        return Reply.call(self.shell_tool, command=command)  # it refuses a description

    def trust(self, project: Path) -> None:
        path = self.home / ".vibe" / "trusted_folders.toml"
        folders = tomllib.loads(path.read_text(encoding="utf-8"))["trusted"] if path.exists() else []
        listed = json.dumps([*folders, str(project)])  # also a TOML list
        path.write_text(f"trusted = {listed}\nuntrusted = []\n", encoding="utf-8")

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, "--auto-approve", "--trust", *resumed, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--resume", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".vibe/logs/session/unified").glob("*/CURRENT"))

    def files_of(self, key: str) -> Path:
        return super().files_of(key).parent

    def sessions(self) -> list[str]:
        return [path.parent.name for path in self.transcripts()]
