"""Opening a terminal window with a command in it, where there is one: tmux, `$TERMINAL`, or Terminal on macOS."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from cortext.errors import NotFound

SECONDS = 10  # for tmux and osascript, which only pass the command on


class Terminal(NamedTuple):
    """A terminal that can be opened: its name for people, and what it runs."""

    name: str
    kind: str
    program: str


def available(environ: Mapping[str, str]) -> Terminal | None:
    """Return the terminal that a command would be opened in; None if there is none."""
    tmux = shutil.which("tmux", path=environ.get("PATH"))
    if environ.get("TMUX") and tmux:
        return Terminal("a new tmux window", "tmux", tmux)
    chosen = environ.get("TERMINAL", "")
    program = shutil.which(chosen, path=environ.get("PATH")) if chosen else None
    if program:
        return Terminal(os.path.basename(program), "program", program)
    if sys.platform == "darwin":
        return Terminal("Terminal", "macos", "osascript")
    return None


def open_in(terminal: Terminal, argv: list[str], folder: str) -> None:
    """Open the terminal with this command, in this folder. Raises NotFound if it cannot be started."""
    try:
        if terminal.kind == "program":
            # It lives on after us, and its output is not ours.
            subprocess.Popen(
                [terminal.program, "-e", *argv],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            return
        if terminal.kind == "tmux":
            command = [terminal.program, "new-window", "-c", folder, shlex.join(argv)]
        else:
            script = f"cd {shlex.quote(folder)} && {shlex.join(argv)}"
            quoted = json.dumps(script, ensure_ascii=False)  # AppleScript escapes quotes and backslashes as JSON does
            command = [terminal.program, "-e", f'tell application "Terminal" to do script {quoted}']
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotFound(
            f"{terminal.name} could not be opened: {error}",
            kept="the conversation is unchanged",
            hint="paste the command into a terminal yourself",
        ) from error
