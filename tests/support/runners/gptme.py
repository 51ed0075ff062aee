"""gptme: a folder below XDG_DATA_HOME/gptme/logs for each conversation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.runners.base import API_KEY, MODEL, Tool, oldest_first

# Without a terminal, gptme asks the model twice more whether it is done. A tool with this hook ends the turn before.
STOP = """
from gptme.hooks import HookType
from gptme.tools.base import ToolSpec
from gptme.tools.complete import SessionCompleteException


def stop(manager, interactive, prompt_queue, no_confirm=False):
    if not prompt_queue:
        raise SessionCompleteException("the turn is over")
    yield from ()


tool = ToolSpec(name="stop", desc="End the turn", hooks={"stop": (HookType.LOOP_CONTINUE, stop, 2000)})
"""


class Gptme(Tool):
    """gptme: a folder below XDG_DATA_HOME/gptme/logs for each conversation."""

    name = "gptme"
    store = ".local/share/gptme/logs"
    shell_tool = "shell"
    another_model = "gpt-4o"  # instead of one that it does not know, it takes its default

    def configure(self) -> None:
        self.env |= {
            "OPENAI_BASE_URL": f"{self.server_url}/v1",
            "OPENAI_API_KEY": API_KEY,
            "MODEL": f"local/{MODEL}",
            "GPTME_BREAK_ON_TOOLUSE": "0",  # it would run only the first of two calls
            # It would send the file instead of only naming it.
            "GPTME_DISABLE_PATH_INCLUDE": "1",
        }
        self._stop = self.home / "stop.py"
        self._stop.write_text(STOP, encoding="utf-8")

    def choose_another_model(self) -> None:
        self.env["MODEL"] = f"openai/{self.another_model}"

    def trust(self, project: Path) -> None:
        pass  # it never asks

    def headless(self, prompt: str, resume: str | None, extra: Sequence[str]) -> list[str]:
        resumed = ["--name", resume] if resume else []
        tools = f"shell,save,patch,{self._stop}"
        return [self.program, "--non-interactive", "--tools", tools, *resumed, *extra, "--", prompt]

    def interactive(self, prompt: str | None = None, resume: str | None = None) -> list[str]:
        resumed = ["--name", resume] if resume else []
        return [self.program, *resumed, *([prompt] if prompt else [])]

    def transcripts(self) -> list[Path]:
        return oldest_first((self.home / ".local/share" / "gptme" / "logs").glob("*/conversation.jsonl"))

    def files_of(self, key: str) -> Path:
        return super().files_of(key).parent

    def sessions(self) -> list[str]:
        return [path.parent.name for path in self.transcripts()]
