"""Running a command: uniform errors, exit codes, Ctrl-C and closed pipes. Users never see a traceback.

And work that a command leaves to another process: `cortext refresh`, started here and not waited for.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from cortext.errors import CortextError, NotFound, UsageError, WriteFailed
from cortext.faces.terminal.output import folded, paint
from cortext.safety import terminal
from cortext.safety.secrets.masking import mask

OUTPUT_LOST = "everything that was stored; only the output is missing"
LEAST_RESEMBLANCE = 0.75  # one wrong letter in four
FREE_SPACE = "send the output elsewhere, or free some space"
ENDED = "--ended"  # what follows are a tool and the key of its session, which has ended


class Command(NamedTuple):
    """A command of a module that has several; a module with one has these two as functions."""

    parser: Callable[[], Any]  # an ArgumentParser: not imported here, because a hook does without
    run: Callable[[list[str]], int]


def load_command(value: str) -> Any:
    """Return what has the `run` and `parser` of a command: `package.module`, or a Command as `package.module:NAME`."""
    module, _, name = value.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, name) if name else loaded


def run_command(program: str, value: str, arguments: Sequence[str], load: Callable[[str], Any] = load_command) -> int:
    """Import the command's module, run the command, and turn whatever happens into an exit code."""
    try:
        command = load(value)
        if argparse := sys.modules.get("argparse"):  # a hook does without
            refuse_repeats(argparse)
            if "--help" in arguments or "-h" in arguments:
                _report_failed_help(argparse)
        status: int = command.run(list(arguments))
        return status
    except CortextError as error:
        report(program, error, as_json="--json" in arguments)
        return error.exit_status
    except (BrokenPipeError, KeyboardInterrupt):
        raise  # handled for the whole process: see `run_process`
    except Exception as error:
        reported = _as_cortext_error(error)
        report(program, reported, as_json="--json" in arguments)
        return reported.exit_status


def _as_cortext_error(error: Exception) -> CortextError:
    """Return an unexpected error as one of ours, for a uniform report."""
    if isinstance(error, EOFError):  # Ctrl-D
        return UsageError("no answer was given", kept="nothing was changed", hint="see --help")
    if isinstance(error, OSError):
        try:
            os.getcwd()
        except OSError:
            return NotFound(
                "the current folder no longer exists", kept="nothing was changed", hint="cd to another folder"
            )
        if not isinstance(error.filename, (str, bytes)):  # durable reports failed writes to files, with their names
            return WriteFailed(f"cannot write the output: {error.strerror or error}", kept=OUTPUT_LOST, hint=FREE_SPACE)
        return WriteFailed(
            f"{os.fsdecode(error.filename)}: {error.strerror or error}",
            hint="check the free space on the disk, and the permissions of the file",
        )
    if isinstance(error, UnicodeEncodeError):
        return WriteFailed(
            f"the encoding of this locale ({error.encoding}) cannot encode {error.object[error.start : error.end]!a}",
            hint="use a UTF-8 locale: LC_ALL=C.UTF-8",
        )
    if os.environ.get("CORTEXT_TRACEBACK"):
        sys.excepthook(type(error), error, error.__traceback__)
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    at = f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno})" if frame else ""
    return CortextError(
        f"{type(error).__name__}: {error}{at}",
        hint="this is a bug in cortext: please report it, with the traceback that CORTEXT_TRACEBACK=1 prints",
    )


def _report_failed_help(argparse: Any) -> None:
    """Make help that cannot be written an error: argparse would ignore it and exit with 0."""
    argparse.ArgumentParser._print_message = _print_message


def _print_message(parser: object, message: str, file: Any = None) -> None:
    (file or sys.stderr).write(message)


def refuse_repeats(argparse: Any) -> None:
    """Make an option with one value an error if it is given twice: argparse would silently take the last."""

    def store_once(action: Any, parser: object, namespace: Any, values: object, option_string: Any = None) -> None:
        if option_string is not None and is_repeat(action, namespace):
            raise argparse.ArgumentError(action, "given twice: it has one value")
        setattr(namespace, action.dest, values)

    argparse._StoreAction.__call__ = store_once


def is_repeat(action: object, namespace: object) -> bool:
    """Whether an option was given before; it counts as given now."""
    given: set[int] = vars(namespace).setdefault("_given", set())
    if id(action) in given:
        return True
    given.add(id(action))
    return False


def run_process(main: Callable[[list[str]], int]) -> NoReturn:
    """Run a program and end the process with its exit code.

    Collecting garbage rarely, and exiting without freeing memory that the kernel frees anyway, saves a fifth of the
    time of a short command. What must be on disk is there before a command returns.
    """
    gc.set_threshold(50_000, 20, 20)
    _open_streams()
    status = 1
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe (`cortext list | head`): not an error, and nothing more to print.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except KeyboardInterrupt:
        status = 130
    except SystemExit as stop:  # argparse, after its help or an error
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except OSError as error:  # the output itself cannot be written
        status = _output_failed(error)
    except Exception as error:
        report("cortext", _as_cortext_error(error))
    try:
        sys.stdout.flush()
        if status == 130:
            print(file=sys.stderr)
        sys.stderr.flush()
    except OSError as error:
        status = status or _output_failed(error)
    os._exit(status)


def _open_streams() -> None:
    """Make standard input and output usable, whatever the shell passed on.

    If one were closed, the next opened file would take its descriptor. A character that the locale's encoding (Latin-1,
    ASCII) does not have becomes a question mark. JSON is UTF-8 in every locale.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
    for stream in (sys.stdout, sys.stderr):
        writable: Any = stream
        writable.reconfigure(errors="replace")
    if "--json" in sys.argv:
        out: Any = sys.stdout
        out.reconfigure(encoding="utf-8")
        if out.isatty():
            write = out.write
            out.write = lambda text: write(terminal.json_text(text))


def _output_failed(error: OSError) -> int:
    """Report that the output could not be written (a full disk, a closed pipe); return the exit code."""
    status = 0 if isinstance(error, BrokenPipeError) else WriteFailed.exit_status
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards what is still in the buffer
        if status:
            report("cortext", WriteFailed(f"cannot write the output: {error.strerror or error}", kept=OUTPUT_LOST))
            sys.stderr.flush()
    except OSError:
        pass
    return status


def report(program: str, error: CortextError, *, as_json: bool = False) -> None:
    """Print what happened, what was kept and what to do next; masked, because an error may quote a key."""
    error.message, error.kept, error.hint = (mask(text).text for text in (error.message, error.kept, error.hint))
    if as_json:
        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False))
        return
    if error.code == "no-model" and "\n" in error.message:
        # A page on how to set up a model.
        print(folded(terminal.block(error.message), sys.stderr, indent=4), file=sys.stderr)
        print(folded(f"\nKept: {terminal.line(error.kept)}", sys.stderr), file=sys.stderr)
        return
    text = folded(terminal.line(error.message), sys.stderr, first=len(f"{program}: error: "), indent=2)
    print(f"{program}: {paint('error', 'red', 'bold', stream=sys.stderr)}: {text}", file=sys.stderr)
    for label, text in (("kept", error.kept), ("next", error.hint)):
        if text:
            line = folded(terminal.line(text), sys.stderr, first=len("  next: "), indent=8)
            print(f"  {paint(label + ':', 'dim', stream=sys.stderr)} {line}", file=sys.stderr)


def note_untrusted_workspace() -> None:
    """Print a note, once per command, if the workspace here belongs to another user and is not used."""
    from cortext.services.projects.workspaces import untrusted_workspace_here

    why = untrusted_workspace_here()
    if why:
        print(folded(terminal.line(f"Note: {why}"), sys.stderr), file=sys.stderr)


def resembles(name: str, names: Sequence[str]) -> bool:
    """Whether a word is so near to one of the known ones that it is rather a typing error."""
    return bool(get_close_matches(name.lower(), names, n=1, cutoff=LEAST_RESEMBLANCE))


def unknown_command(program: str, name: str, names: Sequence[str], *, also: str = "") -> int:
    """Report an unknown command with the nearest known ones; return the exit code. `also` is what else may be meant."""
    near = get_close_matches(name, names, n=2, cutoff=0.7) or get_close_matches(name, names, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see `{program} --help`"
    error = UsageError(f"unknown command {name!r}", hint=f"{hint} (to search for it: {also})" if also else hint)
    report(program, error)
    return error.exit_status


def refresh_command(*options: str) -> list[str]:
    """Return the command line; the current folder may be a stranger's, and no module is imported from it."""
    return [sys.executable, "-P", "-m", "cortext.faces.cortext.main", "refresh", *options]


def refresh_later(*options: str) -> None:
    """Compare every session's files with the list, in a background process."""
    import subprocess  # every list imports this module, and few start a process

    subprocess.Popen(
        refresh_command(*options), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def index_later() -> None:
    """The same, and finish the search index."""
    refresh_later("--search")
