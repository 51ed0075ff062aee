"""The AI programs that the tests drive, behind one interface.

tool = make_tool("claude-code", tmp_path / "home", server.url)
done = tool.run("hello", cwd=project)
done = tool.run("and then?", cwd=project, resume=tool.sessions()[-1])
"""

from __future__ import annotations

from pathlib import Path

from tests.support.runners.aider import Aider
from tests.support.runners.base import ANOTHER_MODEL, API_KEY, CLOSED_PROXY, MODEL, Tool
from tests.support.runners.claude_code import ClaudeCode
from tests.support.runners.codex import Codex
from tests.support.runners.continue_cli import Continue
from tests.support.runners.copilot import Copilot
from tests.support.runners.gemini_cli import GeminiCli
from tests.support.runners.gptme import Gptme
from tests.support.runners.kimi_code import KimiCode
from tests.support.runners.mistral_vibe import MistralVibe
from tests.support.runners.opencode import OpenCode
from tests.support.runners.pi import Pi
from tests.support.runners.qwen_code import QwenCode

__all__ = [
    "ANOTHER_MODEL",
    "API_KEY",
    "CLOSED_PROXY",
    "MODEL",
    "MORE_TOOLS",
    "TOOLS",
    "Aider",
    "ClaudeCode",
    "Codex",
    "Continue",
    "Copilot",
    "GeminiCli",
    "Gptme",
    "KimiCode",
    "MistralVibe",
    "OpenCode",
    "Pi",
    "QwenCode",
    "Tool",
    "make_tool",
]

TOOLS: dict[str, type[Tool]] = {kind.name: kind for kind in (ClaudeCode, GeminiCli, OpenCode, Codex)}
# The others: only the tests of their own adapters and of pairs run them.
MORE_TOOLS: dict[str, type[Tool]] = {
    kind.name: kind
    for kind in (
        Aider,
        Continue,
        Copilot,
        Gptme,
        KimiCode,
        MistralVibe,
        Pi,
        QwenCode,
    )
}


def make_tool(name: str, folder: Path, server_url: str, *, proxy: str = CLOSED_PROXY) -> Tool:
    """Return the tool of that name with its home in the folder, using the model at the URL."""
    return (TOOLS | MORE_TOOLS)[name](folder, server_url, proxy=proxy)
