"""Opening a terminal window with a command in it, where there is one: tmux, `$TERMINAL`, or Terminal on macOS."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import NamedTuple

from cortext.errors import NotFound
from cortext.safety.languages import applescript, shell, tmux_words, typed

SECONDS = 10  # for tmux and osascript, which only pass the command on
SETTLING = 0.5  # seconds in which a terminal says that it cannot start
# What stands before the command and its arguments; `-e` takes a single text in some of these.
_BEFORE = {"gnome-terminal": ["--"], "mate-terminal": ["-x"], "wezterm": ["start", "--"], "xfce4-terminal": ["-x"]}


class Terminal(NamedTuple):
    """A terminal that can be opened: its name for people, what it runs, and the arguments that the user gave it."""

    name: str
    kind: str
    program: str
    arguments: tuple[str, ...] = ()


def available(environ: Mapping[str, str]) -> Terminal | None:
    """Return the terminal that a command would be opened in; None if there is none."""
    tmux = shutil.which("tmux", path=environ.get("PATH"))
    if environ.get("TMUX") and tmux:
        return Terminal("a new tmux window", "tmux", tmux)
    chosen = _words(environ.get("TERMINAL", ""))
    program = shutil.which(chosen[0], path=environ.get("PATH")) if chosen else None
    if program:
        return Terminal(os.path.basename(program), "program", program, tuple(chosen[1:]))
    if sys.platform == "darwin":
        return Terminal("Terminal", "macos", "osascript")
    return None


def _words(text: str) -> list[str]:
    """Return the words of `$TERMINAL`; none if a quote is open."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def open_in(terminal: Terminal, argv: list[str], folder: str) -> None:
    """Open the terminal with this command, in this folder. Raises NotFound if it cannot be started."""
    try:
        if terminal.kind == "program":
            before = _BEFORE.get(os.path.basename(terminal.program), ["-e"])
            # It lives on after us, and its output is not ours.
            process = subprocess.Popen(
                [terminal.program, *terminal.arguments, *before, *argv],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            _check_started(process)
            return
        if terminal.kind == "tmux":
            # The window opens where tmux is called: what `-c` gets would be read as a format, which can run programs.
            command = [terminal.program, "new-window", *tmux_words([shell(argv)])]
        else:
            script = applescript(f"cd {typed([folder])} && {typed(argv)}")
            command = [terminal.program, "-e", f'tell application "Terminal" to do script {script}']
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, cwd=folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotFound(
            f"{terminal.name} could not be opened: {error}",
            kept="the conversation is unchanged",
            hint="paste the command into a terminal yourself",
        ) from error


def _check_started(process: subprocess.Popen[bytes]) -> None:
    """Raise SubprocessError if a terminal ends at once with an error, as one without a display does."""
    try:
        status = process.wait(SETTLING)
    except subprocess.TimeoutExpired:  # it is open
        threading.Thread(target=process.wait, daemon=True).start()  # or it would stay as a zombie
        return
    if status:
        raise subprocess.CalledProcessError(status, process.args)
