"""`cortext completion`: scripts for bash, zsh and fish. They call `complete-words`, else complete files."""

from __future__ import annotations

from argparse import ArgumentParser

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


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext completion",
        description="Print the completion script of a shell. It completes commands, options and session ids.",
        epilog='bash: eval "$(cortext completion bash)"  ·  zsh: eval "$(cortext completion zsh)"  ·  '
        "fish: cortext completion fish | source",
    )
    made.add_argument("shell", choices=tuple(_SCRIPTS), help="your shell")
    return made


def run(arguments: list[str]) -> int:
    """Print it."""
    print(_SCRIPTS[parser().parse_args(arguments).shell], end="")
    return 0
