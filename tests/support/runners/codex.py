"""Codex: JSON Lines below ~/.codex/sessions/<year>/<month>/<day>."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first


class Codex(Tool):
    """Codex: JSON Lines below ~/.codex/sessions/<year>/<month>/<day>."""

    name = "codex"
    store = ".codex/sessions"
    shell_tool = "exec_command"
    shell_argument = "cmd"

    def configure(self) -> None:
        self.env |= {"TEST_MODEL_KEY": API_KEY}
        self._configure_model("test", MODEL)

    def choose_another_model(self) -> None:
        self._configure_model("another", ANOTHER_MODEL)

    def _configure_model(self, provider: str, model: str) -> None:
        settings = f"""\
model = "{model}"
model_provider = "{provider}"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
# A daemon would outlive the test; the others use the network at every start.
daemon_auto_start = false
plugins = false
apps = false
plugin_discovery_prefetch = false
unbounded_connection_retries = false

[model_providers.{provider}]
name = "Test"
base_url = "{self.server_url}/v1"
wire_api = "responses"
env_key = "TEST_MODEL_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
        path = self.home / ".codex" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(settings, encoding="utf-8")

    def trust(self, project: Path) -> None:
        path = self.home / ".codex" / "config.toml"
        heading = f"[projects.{json.dumps(str(project))}]"
        settings = path.read_text(encoding="utf-8")
        if heading not in settings:  # the program may have written it already, and a duplicate table is an error
            path.write_text(f'{settings}\n{heading}\ntrust_level = "trusted"\n', encoding="utf-8")

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["resume"] if resume else []
        options = ["--skip-git-repo-check", *extra]
        return [self.program, "exec", *resumed, *options, *([resume] if resume else []), prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["resume", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".codex" / "sessions").glob("*/*/*/rollout-*.jsonl"))

    def sessions(self) -> list[str]:
        # rollout-2026-01-02T03-04-05-<uuid>.jsonl
        return [path.stem[-36:] for path in self.transcripts()]
