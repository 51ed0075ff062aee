"""The registry of AI tools: the built-in adapters, and those that other installed packages provide.

A package provides an adapter through an entry point of the group `cortext.tools`. Its name is the tool's name, its
value the adapter's class (docs/adding-a-tool.md). An adapter that cannot be used is ignored, and `problems` says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cortext.errors import ConfigError, CortextError
from cortext.extensions import Group, add_problem
from cortext.tools.base import TranscriptSource

BUILT_IN = {
    "claude": "cortext.tools.claude_code.adapter:ClaudeCode",
    "gemini": "cortext.tools.gemini_cli.adapter:GeminiCli",
    "opencode": "cortext.tools.opencode.adapter:OpenCode",
    "codex": "cortext.tools.codex.adapter:Codex",
    "copilot": "cortext.tools.copilot.adapter:Copilot",
    "qwen": "cortext.tools.qwen_code.adapter:QwenCode",
    "pi": "cortext.tools.pi.adapter:Pi",
    "kimi": "cortext.tools.kimi_code.adapter:KimiCode",
    "continue": "cortext.tools.continue_cli.adapter:Continue",
    "vibe": "cortext.tools.vibe.adapter:Vibe",
    "gptme": "cortext.tools.gptme.adapter:Gptme",
    "aider": "cortext.tools.aider.adapter:Aider",
}
# The built-in adapters that only read. They are apart so that a list of tools to resume in needs no import either.
READERS = {
    "cursor": "cortext.tools.cursor.adapter:Cursor",
    "chatgpt": "cortext.tools.chatgpt.adapter:ChatGpt",
    "claude-ai": "cortext.tools.claude_ai.adapter:ClaudeAi",
    "cline": "cortext.tools.cline.adapter:Cline",
    "roo": "cortext.tools.cline.adapter:Roo",
    "kilo": "cortext.tools.cline.adapter:Kilo",
    "llm": "cortext.tools.llm.adapter:Llm",
    "goose": "cortext.tools.goose.adapter:Goose",
    "crush": "cortext.tools.crush.adapter:Crush",
    "openhands": "cortext.tools.openhands.adapter:OpenHands",
    "amp": "cortext.tools.amp.adapter:Amp",
    "droid": "cortext.tools.droid.adapter:Droid",
}
TOOLS = Group("cortext.tools", "AI tool", BUILT_IN | READERS, part="adapter")


def names() -> tuple[str, ...]:
    """Return the names of all tools, the built-in ones first, without importing any adapter."""
    return TOOLS.names()


def target_names() -> tuple[str, ...]:
    """Return the names of the tools that may be resumed in: all but the built-in ones that only read."""
    return (*BUILT_IN, *TOOLS.external)


def is_known(name: str) -> bool:
    """Whether there is a tool of this name."""
    return bool(TOOLS.value(name))


def title_of(name: str) -> str:
    """Return the title of a tool; its name if no adapter can be loaded."""
    try:
        return load(name).title
    except CortextError:
        return name


def load(name: str) -> TranscriptSource:
    """Return the adapter of one tool. Raise UsageError if it is unknown, ConfigError if its adapter cannot be used."""

    def create(cls: Any) -> TranscriptSource:
        tool = cls()
        if not isinstance(tool, TranscriptSource):
            raise TypeError(f"not a TranscriptSource, it lacks {', '.join(_missing_members(tool))}")
        if tool.name != name:
            raise ValueError(f"it calls itself {tool.name!r}")
        return tool

    adapter: TranscriptSource = TOOLS.load(name, create)
    return adapter


def load_all(chosen: Iterable[str] | None = None) -> list[TranscriptSource]:
    """Return every adapter that can be used, or those of these names."""
    loaded = []
    for name in names() if chosen is None else chosen:
        try:
            loaded.append(load(name))
        except ConfigError as error:
            add_problem(f"{error.message}; it is ignored")
    return loaded


def _missing_members(adapter: object) -> list[str]:
    required = {*TranscriptSource.__annotations__, *(name for name in vars(TranscriptSource) if name[0] != "_")}
    return sorted(required - {*dir(adapter)})
