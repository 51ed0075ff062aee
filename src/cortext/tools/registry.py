"""The registry of AI tools: the built-in adapters, and those that other installed packages provide.

A package provides an adapter through an entry point of the group `cortext.tools`. Its name is the tool's name, its
value the adapter's class (docs/adding-a-tool.md). An adapter that cannot be used is ignored, and `problems` says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from cortext.errors import ConfigError, CortextError, UsageError
from cortext.tools.base import TranscriptSource

GROUP = "cortext.tools"
# The same as in pyproject.toml. Reading the metadata of every installed package takes 25 ms, a quarter of the time that
# a hook may take, so the built-in adapters are found without it.
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
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_problems: list[str] = []


def names() -> tuple[str, ...]:
    """Return the names of all tools, the built-in ones first, without importing any adapter."""
    return (*BUILT_IN, *READERS, *_external())


def target_names() -> tuple[str, ...]:
    """Return the names of the tools that may be resumed in: all but the built-in ones that only read."""
    return (*BUILT_IN, *_external())


def is_known(name: str) -> bool:
    """Whether there is a tool of this name."""
    return name in BUILT_IN or name in READERS or name in _external()


def title_of(name: str) -> str:
    """Return the title of a tool; its name if no adapter can be loaded."""
    try:
        return load(name).title
    except CortextError:
        return name


def load(name: str) -> TranscriptSource:
    """Return the adapter of one tool. Raise UsageError if it is unknown, ConfigError if its adapter cannot be used."""
    value = BUILT_IN.get(name) or READERS.get(name) or _external().get(name)
    if value is None:
        raise UsageError(f"unknown AI tool {name!r}", hint=f"use one of {', '.join(names())}")
    module, _, cls = value.partition(":")
    try:
        adapter = getattr(import_module(module), cls)()
        if not isinstance(adapter, TranscriptSource):
            raise TypeError(f"not a TranscriptSource, it lacks {', '.join(_missing_members(adapter))}")
        if adapter.name != name:
            raise ValueError(f"it calls itself {adapter.name!r}")
    except Exception as error:  # another package may raise anything when it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"the adapter {name!r} ({value}) cannot be used: {reason}",
            kept="nothing was changed",
            hint="update or uninstall the package that provides it",
        ) from error
    return adapter


def load_all(wanted: Iterable[str] | None = None) -> list[TranscriptSource]:
    """Return every adapter that can be used, or those of these names."""
    loaded = []
    for name in names() if wanted is None else wanted:
        try:
            loaded.append(load(name))
        except ConfigError as error:
            _add_problem(f"{error.message}; it is ignored")
    return loaded


def problems() -> list[str]:
    """Return why adapters were ignored since the last call, one line each."""
    found = _problems[:]
    _problems.clear()
    return found


def _add_problem(line: str) -> None:
    if line not in _problems:
        _problems.append(line)


def _missing_members(adapter: object) -> list[str]:
    required = {*TranscriptSource.__annotations__, *(name for name in vars(TranscriptSource) if name[0] != "_")}
    return sorted(required - {*dir(adapter)})


@cache
def _external() -> dict[str, str]:
    """Return the adapters of other packages: name and value of the entry point. The first of a name wins."""
    from importlib.metadata import entry_points

    found: dict[str, str] = {}
    for name, value in sorted({(point.name, point.value) for point in entry_points(group=GROUP)}):
        taken = BUILT_IN.get(name) or READERS.get(name) or found.get(name)
        if taken == value:
            continue  # the entry point of a built-in adapter
        if taken:
            _add_problem(f"the adapter {name!r} ({value}) is ignored: {taken} has that name")
        elif not _NAME.fullmatch(name):
            _add_problem(
                f"the adapter {name!r} ({value}) is ignored: use lower-case letters, digits, - and _ in its name"
            )
        else:
            found[name] = value
    return found
