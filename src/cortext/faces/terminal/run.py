"""Running a command: errors in one shape, exit codes, Ctrl-C and closed pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from cortext.errors import CortextError, UsageError
from cortext.faces.terminal.style import paint
from cortext.safety import terminal

Command = Callable[[list[str]], int]


def run_command(program: str, module: str, arguments: Sequence[str]) -> int:
    """Import the command's module, call its `run`, and turn whatever happens into an exit code."""
    try:
        command: Command = import_module(module).run
        return command(list(arguments))
    except CortextError as error:
        report(program, error, as_json="--json" in arguments)
        return error.exit_status
    except BrokenPipeError:
        # The reader went away (`cortext list | head`): not an error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130


def report(program: str, error: CortextError, *, as_json: bool = False) -> None:
    """Say what happened, what was kept and what to do next."""
    if as_json:
        import json

        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False))
        return
    print(
        f"{program}: {paint('error', 'red', 'bold', stream=sys.stderr)}: {terminal.line(error.message)}",
        file=sys.stderr,
    )
    for label, text in (("kept", error.kept), ("next", error.hint)):
        if text:
            print(f"  {paint(label + ':', 'dim', stream=sys.stderr)} {terminal.line(text)}", file=sys.stderr)


def unknown_command(program: str, name: str, known: Sequence[str]) -> int:
    """An unknown command, with the nearest known ones."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see `{program} --help`"
    error = UsageError(f"unknown command {name!r}", hint=hint)
    report(program, error)
    return error.exit_status
