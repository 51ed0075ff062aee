"""Running a command: errors in one shape, exit codes, Ctrl-C and closed pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from cortext.errors import CortextError, UsageError
from cortext.faces.terminal.style import paint
from cortext.safety import terminal

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from typing import Any, NoReturn

Command = Callable[[list[str]], int]


def run_command(program: str, module: str, arguments: Sequence[str]) -> int:
    """Import the command's module, call its `run`, and turn whatever happens into an exit code."""
    try:
        command: Command = _imported(module).run
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


def _imported(module: str) -> Any:
    """The module of a command, without what argparse does for others: it asks for its few words in the user's
    language. There are no such translations, and looking for them takes 2 ms."""
    # Not importlib.import_module, which would bring `warnings` and a twentieth of our start-up time.
    if "gettext" in sys.modules:
        return __import__(module, fromlist=["run"])
    words: Any = type(sys)("gettext")
    words.gettext = lambda text: text
    words.ngettext = lambda one, many, count: one if count == 1 else many
    sys.modules["gettext"] = words
    try:
        return __import__(module, fromlist=["run"])
    finally:
        del sys.modules["gettext"]


def whole_process(main: Callable[[list[str]], int]) -> NoReturn:
    """Run a program to its end, as quickly as a short one can be.

    Rarely looking for garbage, and leaving without tidying up memory that the kernel frees anyway, is a fifth of the
    time of a short command. What must be on disk is there before a command returns.
    """
    import gc

    gc.set_threshold(50_000, 20, 20)
    status = 1
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except SystemExit as stop:  # argparse, after its help or its complaint
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(status)


def report(program: str, error: CortextError, *, as_json: bool = False) -> None:
    """Say what happened, what was kept and what to do next."""
    if as_json:
        import json

        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False))
        return
    if error.code == "no-model" and "\n" in error.message:
        print(terminal.block(error.message), file=sys.stderr)  # a whole screen that says how to get going
        print(f"\nKept: {terminal.line(error.kept)}", file=sys.stderr)
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
