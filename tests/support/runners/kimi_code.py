"""Kimi Code: an event log for each conversation below ~/.kimi-code/sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cortext.tools.kimi_code.read import workspace_name
from tests.support.runners.base import ANOTHER_MODEL, API_KEY, MODEL, Tool, oldest_first, write_json

# The name that it gives to the model in its environment variables.
ALIAS = "__kimi_env_model__"


class KimiCode(Tool):
    """Kimi Code: an event log for each conversation below ~/.kimi-code/sessions."""

    name = "kimi-code"
    store = ".kimi-code/sessions"
    shell_tool = "Bash"

    def configure(self) -> None:
        self.env |= {
            "KIMI_MODEL_NAME": MODEL,
            "KIMI_MODEL_API_KEY": API_KEY,
            "KIMI_MODEL_BASE_URL": f"{self.server_url}/v1",
            "KIMI_MODEL_PROVIDER_TYPE": "openai",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
            "KIMI_DISABLE_TELEMETRY": "1",
        }

    def choose_another_model(self) -> None:
        self.env["KIMI_MODEL_NAME"] = ANOTHER_MODEL

    def trust(self, project: Path) -> None:
        path = self.home / ".kimi-code" / "workspace-trust" / workspace_name(str(project))
        write_json(path, {"root": str(project), "trustedAt": 1794921432132})

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["-S", resume] if resume else []
        return [self.program, *resumed, "-m", ALIAS, *extra, "-p", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        assert prompt is None, "its screen takes no first prompt"
        return [self.program, *(["-S", resume] if resume else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".kimi-code" / "sessions").glob("wd_*/session_*/agents/main/wire.jsonl"))

    def files_of(self, key: str) -> Path:
        return super().files_of(key).parents[2]

    def sessions(self) -> list[str]:
        return [path.parts[-4] for path in self.transcripts()]
