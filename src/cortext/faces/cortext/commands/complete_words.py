"""`cortext complete-words`: what could follow, one a line. Called by the shells at every Tab."""

from __future__ import annotations

from importlib import import_module

from cortext.faces.cortext.main import COMMANDS, PACKAGE
from cortext.safety import terminal

_TAKES_SESSION = ("resume", "stop", "complete", "show", "title", "fork", "prune", "export", "delete", "repair")


def run(arguments: list[str]) -> int:
    """Print the words that begin as the last one does."""
    words = arguments or [""]
    modules = {name: module for _, commands in COMMANDS for name, module, _ in commands}
    if len(words) == 1:
        found = list(modules)
    elif words[-1].startswith("-"):
        found = _options(modules.get(words[0], ""), words[0])
    elif words[0] in _TAKES_SESSION:
        found = _sessions()
    elif words[0] == "new" and len(words) == 2:
        found = _types()
    else:
        found = []
    for word in found:
        # A name from a stranger's repository that is no plain word has no place on a command line.
        if word.startswith(words[-1]) and terminal.line(word) == word and not any(map(str.isspace, word)):
            print(word)
    return 0


def _options(module: str, name: str) -> list[str]:
    if not module:
        return []
    made = getattr(import_module(f"{PACKAGE}.{module}"), "parser", None)
    if made is None:
        return []
    try:
        parser = made()
    except TypeError:  # one that is shared by two commands wants to know which
        parser = made(name)
    return sorted(option for action in parser._actions for option in action.option_strings if option.startswith("--"))


def _sessions() -> list[str]:
    from cortext.faces.cortext.commands._listing import fresh_listing
    from cortext.wiring import Wiring

    return [row.id for row in fresh_listing(Wiring()).rows()]


def _types() -> list[str]:
    from cortext.services import registry
    from cortext.wiring import Wiring

    return sorted(registry.load(Wiring().workspace_store().root).types)
