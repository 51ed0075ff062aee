"""`cortext complete-words`: print completions, one per line. Called by the shells at every Tab."""

from __future__ import annotations

from argparse import Action

from cortext.faces.cortext.main import commands, other_commands
from cortext.faces.terminal.run import load_command
from cortext.safety import terminal

_TAKES_SESSION = (
    "resume", "stop", "complete", "show", "title", "fork", "prune", "export", "delete", "repair", "similar",
    "tag", "star", "note", "archive",
)  # fmt: skip
NEWEST = 1_000  # sessions whose ids and tags are offered, if some are on a server


def run(arguments: list[str]) -> int:
    """Print the words that start with the last argument."""
    words = arguments or [""]
    known = commands() | other_commands()
    if len(words) == 1:
        found = list(known)
    elif words[0] not in known:
        found = []
    elif words[-1].startswith("-"):
        actions = _actions(known[words[0]])
        found = sorted(option for action in actions for option in action.option_strings if option.startswith("--"))
    else:
        found = _values(_actions(known[words[0]]), words)
    for word in found:
        # A name from a stranger's repository must not put anything but a plain word on the command line.
        if word.startswith(words[-1]) and terminal.line(word) == word and not any(map(str.isspace, word)):
            print(word)
    return 0


def _actions(value: str) -> list[Action]:
    """Return the arguments and options of a command's parser."""
    return list(load_command(value).parser()._actions)


def _values(actions: list[Action], words: list[str]) -> list[str]:
    """Return the values that the preceding option, or else the command, accepts; none if it accepts anything."""
    for action in actions:
        if words[-2] in action.option_strings and action.nargs != 0:
            if action.dest == "tag":
                return _tags()
            return _types() if action.dest == "type" else [str(choice) for choice in action.choices or ()]
        if len(words) == 2 and action.choices and not action.option_strings:
            return [str(choice) for choice in action.choices]
    if words[0] == "new":
        return _types() if len(words) == 2 else []
    return _sessions() if words[0] in _TAKES_SESSION else []


def _sessions() -> list[str]:
    from cortext.faces.cortext.commands._listing import fresh_listing
    from cortext.wiring.stores import Stores

    listing = fresh_listing(Stores(only_reads=True))
    listing.partial = True
    return [cells[0] for cells in listing.cells(("id",), limit=NEWEST if listing.servers else 0)]


def _tags() -> list[str]:
    from cortext.faces.cortext.commands._listing import fresh_listing
    from cortext.wiring.stores import Stores

    listing = fresh_listing(Stores(only_reads=True))
    listing.partial = True
    rows = listing.rows(limit=NEWEST if listing.servers else 0)
    return sorted({tag for row in rows for tag in row.tag_names})


def _types() -> list[str]:
    from cortext.services.workspace import registry
    from cortext.wiring.stores import Stores

    return sorted(registry.load(Stores(only_reads=True).here()).types)
