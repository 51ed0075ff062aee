"""Running a command: errors in one shape, exit codes, Ctrl-C and closed pipes. No traceback reaches a user."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from cortext.errors import CortextError, NotFound, UsageError, WriteFailed
from cortext.faces.terminal.style import folded, paint
from cortext.safety import terminal
from cortext.safety.secrets.masking import mask

SAID_LESS = "everything that was stored; only what was to be said about it is missing"
ELSEWHERE = "send the output elsewhere, or free some space"
Command = Callable[[list[str]], int]


def run_command(program: str, module: str, arguments: Sequence[str]) -> int:
    """Import the command's module, call its `run`, and turn whatever happens into an exit code."""
    try:
        command: Command = importlib.import_module(module).run
        if "--help" in arguments or "-h" in arguments:
            _let_help_fail()
        return command(list(arguments))
    except CortextError as error:
        report(program, error, as_json="--json" in arguments)
        return error.exit_status
    except (BrokenPipeError, KeyboardInterrupt):
        raise  # for the whole process, not for one command: see `whole_process`
    except Exception as error:
        told = _told(error)
        report(program, told, as_json="--json" in arguments)
        return told.exit_status


def _told(error: Exception) -> CortextError:
    """An error that nobody foresaw, in the words of one of ours."""
    if isinstance(error, EOFError):  # Ctrl-D
        return UsageError("the question was not answered", kept="nothing was changed", hint="see --help")
    if isinstance(error, OSError):
        try:
            os.getcwd()
        except OSError:
            return NotFound(
                "the current folder does not exist any more", kept="nothing was changed", hint="cd to another folder"
            )
        if not isinstance(error.filename, (str, bytes)):  # what is written to files is told by fsio, with its name
            return WriteFailed(f"cannot write the output: {error.strerror or error}", kept=SAID_LESS, hint=ELSEWHERE)
        return WriteFailed(
            f"{os.fsdecode(error.filename)}: {error.strerror or error}",
            hint="check that there is room on the disk, and that the file is yours to read and write",
        )
    if isinstance(error, UnicodeEncodeError):
        return WriteFailed(
            f"the encoding of this locale ({error.encoding}) has no {error.object[error.start : error.end]!a}",
            hint="use a UTF-8 locale: LC_ALL=C.UTF-8",
        )
    if os.environ.get("CORTEXT_TRACEBACK"):
        sys.excepthook(type(error), error, error.__traceback__)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = f" ({os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno})" if place else ""
    return CortextError(
        f"{type(error).__name__}: {error}{at}",
        hint="this is a bug in cortext: please report it; CORTEXT_TRACEBACK=1 shows where it happened",
    )


def _let_help_fail() -> None:
    """Help that cannot be written is an error like any other output: argparse would say nothing, and exit with 0."""
    import argparse

    made: Any = argparse.ArgumentParser
    made._print_message = _print_message


def _print_message(parser: object, message: str, file: Any = None) -> None:
    (file or sys.stderr).write(message)


def whole_process(main: Callable[[list[str]], int]) -> NoReturn:
    """Run a program to its end, as quickly as a short one can be.

    Rarely looking for garbage, and leaving without tidying up memory that the kernel frees anyway, is a fifth of the
    time of a short command. What must be on disk is there before a command returns.
    """
    gc.set_threshold(50_000, 20, 20)
    _open_streams()
    status = 1
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away (`cortext list | head`): not an error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except KeyboardInterrupt:
        status = 130
    except SystemExit as stop:  # argparse, after its help or its complaint
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except OSError as error:  # of the output itself: what was to be said cannot be said
        status = _unsaid(error)
    except Exception as error:
        report("cortext", _told(error))
    try:
        sys.stdout.flush()
        if status == 130:
            print(file=sys.stderr)
        sys.stderr.flush()
    except OSError as error:
        status = status or _unsaid(error)
    os._exit(status)


def _open_streams() -> None:
    """Standard input and outputs that can be used whatever the shell gave us.

    One that is closed would make the next file that is opened take its number; a character that the locale's encoding
    does not have (Latin-1, ASCII) becomes a question mark. JSON is UTF-8 in every locale.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
    for stream in (sys.stdout, sys.stderr):
        made: Any = stream
        made.reconfigure(errors="replace")
    if "--json" in sys.argv:
        out: Any = sys.stdout
        out.reconfigure(encoding="utf-8")
        if out.isatty():
            write = out.write
            out.write = lambda text: write(terminal.json_text(text))


def _unsaid(error: OSError) -> int:
    """The output could not be written (a full disk, a closed pipe); the exit code."""
    status = 0 if isinstance(error, BrokenPipeError) else WriteFailed.exit_status
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still in the buffer goes nowhere
        if status:
            report("cortext", WriteFailed(f"cannot write the output: {error.strerror or error}", kept=SAID_LESS))
            sys.stderr.flush()
    except OSError:
        pass
    return status


def report(program: str, error: CortextError, *, as_json: bool = False) -> None:
    """Say what happened, what was kept and what to do next; an error may quote an address with a key in it."""
    error.message, error.kept, error.hint = (mask(text).text for text in (error.message, error.kept, error.hint))
    if as_json:
        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False))
        return
    if error.code == "no-model" and "\n" in error.message:
        # A whole screen that says how to get going.
        print(folded(terminal.block(error.message), sys.stderr, indent=4), file=sys.stderr)
        print(folded(f"\nKept: {terminal.line(error.kept)}", sys.stderr), file=sys.stderr)
        return
    said = folded(terminal.line(error.message), sys.stderr, first=len(f"{program}: error: "), indent=2)
    print(f"{program}: {paint('error', 'red', 'bold', stream=sys.stderr)}: {said}", file=sys.stderr)
    for label, text in (("kept", error.kept), ("next", error.hint)):
        if text:
            said = folded(terminal.line(text), sys.stderr, first=len("  next: "), indent=8)
            print(f"  {paint(label + ':', 'dim', stream=sys.stderr)} {said}", file=sys.stderr)


def note_untrusted_workspace() -> None:
    """Say, once a command, that the workspace that we stand in is somebody else's and is not used."""
    from cortext.services.workspace.known import untrusted_workspace_here

    why = untrusted_workspace_here()
    if why:
        print(folded(terminal.line(f"Note: {why}"), sys.stderr), file=sys.stderr)


def unknown_command(program: str, name: str, known: Sequence[str]) -> int:
    """An unknown command, with the nearest known ones."""
    near = get_close_matches(name, known, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see `{program} --help`"
    error = UsageError(f"unknown command {name!r}", hint=hint)
    report(program, error)
    return error.exit_status
