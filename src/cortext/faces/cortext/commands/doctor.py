"""`cortext doctor`: check every known store."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser

from cortext.faces.terminal.style import paint
from cortext.safety import terminal
from cortext.services.capture import uncaptured
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext doctor",
        description="Check every store that is known on this machine: read each session completely and report what is "
        "damaged and what to do about it. On a server, the counts of the sessions that were active since the last run "
        "are compared with their messages; --full reads all of them. Nothing is changed, unless you agree to import "
        "conversations that an AI tool is about to delete.",
        epilog="example:  cortext doctor --json  ·  Exit code 0: no damage (maybe warnings); 1: the workspace's "
        "settings file is invalid; 3: something is damaged or could not be captured; 9: a server does not answer.",
    )
    made.add_argument("--full", action="store_true", help="read every session on a server too, not only count")
    made.add_argument("--json", action="store_true", help="print the findings as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Examine, print, and return 3 if something is damaged."""
    # A plain `doctor` is often the first command that a user runs: load only what it needs.
    options = parser().parse_args(arguments) if arguments else None
    as_json, full = (options.json, options.full) if options else (False, False)
    locations = Stores(only_reads=True).locations()
    if not as_json:
        warn_if_not_on_path()
    if not any(location.exists for location in locations) and not uncaptured.failures() and not _any_transcripts():
        print("[]" if as_json else "Nothing is stored yet, so there is nothing to check. Start with `cortext demo`.")
        return 0
    from cortext.faces.cortext.commands._doctor_report import run_full

    return run_full(as_json=as_json, full=full)


def _any_transcripts() -> bool:
    """Whether an AI tool has a conversation on this machine, which it may be about to delete."""
    from cortext.services.capture.transcripts import any_of
    from cortext.wiring.tools import tools

    return any_of(tools())


def warn_if_not_on_path() -> bool:
    """Warn on standard error if `cortext` is not on PATH, with the fix; return whether it was missing."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if any(os.access(os.path.join(folder, "cortext"), os.X_OK) for folder in folders):
        return False
    called = os.path.abspath(sys.argv[0])
    program_folder = (
        os.path.dirname(called) if os.path.basename(called) == "cortext" else os.path.dirname(sys.executable)
    )
    print(
        f"{paint('warning', 'yellow', stream=sys.stderr)}: `cortext` is not on PATH: the hooks and the MCP entry of "
        "your AI tools call it by that name,\nand nothing would be captured. Add this to your shell's start-up file:\n"
        f'  export PATH="{terminal.line(program_folder)}:$PATH"',
        file=sys.stderr,
    )
    return True
