"""Which AI tools there are: those that come with cortext, and those that other installed packages bring.

A package brings an adapter by an entry point of the group `cortext.tools`, whose name is the tool's name and whose
value is the adapter's class (docs/adding-a-tool.md). One that cannot be used is left out, and `problems` says why.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

from cortext.errors import ConfigError, CortextError, UsageError
from cortext.tools.base import TranscriptSource

GROUP = "cortext.tools"
# The same as in pyproject.toml. Ours are found without the metadata of every installed package, which takes 25 ms to
# read: a quarter of the time that a hook may take.
BUILT_IN = {
    "claude": "cortext.tools.claude_code.adapter:ClaudeCode",
    "gemini": "cortext.tools.gemini_cli.adapter:GeminiCli",
    "opencode": "cortext.tools.opencode.adapter:OpenCode",
    "codex": "cortext.tools.codex.adapter:Codex",
}
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_problems: list[str] = []


def names() -> tuple[str, ...]:
    """The names of all tools, ours first. Nothing of theirs is imported for it."""
    return (*BUILT_IN, *_others())


def is_known(name: str) -> bool:
    """Whether there is a tool of this name."""
    return name in BUILT_IN or name in _others()


def title_of(name: str) -> str:
    """What a person calls a tool; its name where no adapter says."""
    try:
        return load(name).title
    except CortextError:
        return name


def load(name: str) -> TranscriptSource:
    """The adapter of one tool."""
    value = BUILT_IN.get(name) or _others().get(name)
    if value is None:
        raise UsageError(f"unknown AI tool {name!r}", hint=f"one of {', '.join(names())}")
    module, _, cls = value.partition(":")
    try:
        made = getattr(import_module(module), cls)()
        if not isinstance(made, TranscriptSource):
            raise TypeError(f"not a TranscriptSource, it lacks {', '.join(_lacking(made))}")
        if made.name != name:
            raise ValueError(f"it calls itself {made.name!r}")
    except Exception as error:  # whatever another package does when it is imported
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"the adapter {name!r} ({value}) cannot be used: {why}",
            kept="nothing was changed",
            hint="update or uninstall the package that brings it",
        ) from error
    return made


def load_all() -> list[TranscriptSource]:
    """Every adapter that can be used."""
    loaded = []
    for name in names():
        try:
            loaded.append(load(name))
        except ConfigError as error:
            _problem(f"{error.message}; it is left out")
    return loaded


def problems() -> list[str]:
    """What kept adapters from being used until now, a line each; each is returned once."""
    found = _problems[:]
    _problems.clear()
    return found


def _problem(line: str) -> None:
    if line not in _problems:
        _problems.append(line)


def _lacking(made: object) -> list[str]:
    """What an adapter lacks that every one needs."""
    wanted = {*TranscriptSource.__annotations__, *(name for name in vars(TranscriptSource) if name[0] != "_")}
    return sorted(wanted - {*dir(made)})


@cache
def _others() -> dict[str, str]:
    """The adapters of other packages: name and value of the entry point. Ours win where a name is taken."""
    from importlib.metadata import entry_points

    found: dict[str, str] = {}
    for name, value in sorted({(point.name, point.value) for point in entry_points(group=GROUP)}):
        taken = BUILT_IN.get(name) or found.get(name)
        if taken == value:
            continue  # ourselves
        if taken:
            _problem(f"the adapter {name!r} ({value}) is left out: {taken} has that name")
        elif not _NAME.fullmatch(name):
            _problem(f"the adapter {name!r} ({value}) is left out: use lower-case letters, digits, - and _ in its name")
        else:
            found[name] = value
    return found
