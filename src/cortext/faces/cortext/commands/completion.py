"""`cortext completion` prints a script for a shell, and the scripts call `cortext complete-words` at every Tab."""

from __future__ import annotations

from argparse import Action, ArgumentParser
from typing import TYPE_CHECKING

from cortext.faces.cortext.main import commands, other_commands
from cortext.faces.terminal.run import Command, load_command
from cortext.model.query import Query
from cortext.safety import terminal

if TYPE_CHECKING:  # most words are completed without a list, and without a store
    from cortext.services.library.listing import Listing
    from cortext.wiring.stores import Stores

_SCRIPTS = {
    "bash": """_cortext() {
  local IFS=$'\\n'
  COMPREPLY=($(cortext complete-words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _cortext cortext
""",
    # As a file named _cortext on the fpath, zsh runs the script itself as the function; otherwise it is evaluated.
    "zsh": """#compdef cortext
_cortext() {
  local -a found
  found=(${(f)"$(cortext complete-words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
if [[ $funcstack[1] == _cortext ]]; then _cortext "$@"; else compdef _cortext cortext; fi
""",
    "fish": """function __cortext_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found (cortext complete-words $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c cortext -f -a '(__cortext_words)'
""",
}


def completion_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext completion",
        description="Print the completion script of a shell. It completes commands, options and session ids.",
        epilog='bash: eval "$(cortext completion bash)"  ·  zsh: eval "$(cortext completion zsh)"  ·  '
        "fish: cortext completion fish | source",
    )
    command.add_argument("shell", choices=tuple(_SCRIPTS), help="your shell")
    return command


def run_completion(arguments: list[str]) -> int:
    """Print it."""
    print(_SCRIPTS[completion_parser().parse_args(arguments).shell], end="")
    return 0


_TAKES_SESSION = (
    "resume", "stop", "complete", "show", "title", "fork", "prune", "export", "delete", "repair", "similar",
    "tag", "star", "note", "archive",
)  # fmt: skip
NEWEST = 1_000  # sessions whose ids and tags are offered, if some are on a server


def run_words(arguments: list[str]) -> int:
    """Print the words that start with the last argument."""
    words = arguments or [""]
    places = commands() | other_commands()
    if len(words) == 1:
        choices = list(places)
    elif words[0] not in places:
        choices = []
    elif words[-1].startswith("-"):
        actions = _actions(places[words[0]])
        choices = sorted(option for action in actions for option in action.option_strings if option.startswith("--"))
    else:
        choices = _values(_actions(places[words[0]]), words)
    for word in choices:
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


def _listing() -> Listing:
    from cortext.faces.cortext.commands._listing import fresh_listing

    return fresh_listing(_stores()).reachable()


def _sessions() -> list[str]:
    listing = _listing()
    return [cells[0] for cells in listing.cells(("id",), Query(limit=listing.limit(NEWEST)))]


def _tags() -> list[str]:
    listing = _listing()
    rows = listing.rows(Query(limit=listing.limit(NEWEST)))
    return sorted({tag for row in rows for tag in row.tag_names})


def _types() -> list[str]:
    from cortext.services.workspace import registry

    return sorted(registry.load(_stores().here()).types)


def _stores() -> Stores:
    from cortext.wiring.stores import Stores

    return Stores(only_reads=True)


COMPLETION = Command(completion_parser, run_completion)
WORDS = Command(ArgumentParser, run_words)  # no options that a person types
