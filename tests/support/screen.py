"""A real terminal for programs with a screen: tmux with a socket of its own, and polling instead of sleeping."""

from __future__ import annotations

import os
import shlex
import subprocess
import termios
import time
from pathlib import Path
from typing import Self


class Screen:
    """`with Screen(folder, command, env, cwd) as screen:`; everything in it ends with the block."""

    def __init__(self, folder: Path, command: list[str], env: dict[str, str], cwd: Path, size: str = "140x45") -> None:
        self.socket = folder / "tmux.sock"
        width, height = size.split("x")
        wanted = {**env, "TERM": "tmux-256color", "COLORTERM": "truecolor"}
        line = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in wanted.items()), *command])
        start = ["new-session", "-d", "-x", width, "-y", height, "-c", str(cwd), line]
        self._tmux("-f", "/dev/null", *start)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), *words]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.socket.parent), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
        )
        return done.stdout

    def text(self) -> str:
        """What is on the screen now, and what scrolled off it."""
        return self._tmux("capture-pane", "-p", "-S", "-2000")

    def wait_for(self, *words: str, timeout: float = 90.0) -> str:
        """Until all these words are on the screen."""
        deadline = time.monotonic() + timeout
        while True:
            shown = self.text()
            # A screen folds long lines: compare without blanks.
            flat = "".join(shown.split())
            if all("".join(word.split()) in flat for word in words):
                return shown
            if time.monotonic() > deadline:
                raise AssertionError(f"not on the screen after {timeout:g} s: {words}\n{shown}")
            time.sleep(0.05)  # the pause between two looks, not a guess that it is done

    def at_prompt(self, timeout: float = 90.0) -> Self:
        """Until a prompt of ours reads keys one by one: before that the terminal takes Ctrl-D and Ctrl-C itself.

        `screen.at_prompt().press("C-d")`
        """
        deadline = time.monotonic() + timeout
        while self._modes() & (termios.ICANON | termios.ISIG):
            assert time.monotonic() < deadline, f"no prompt after {timeout:g} s\n{self.text()}"
            time.sleep(0.02)  # the pause between two looks
        return self

    def _modes(self) -> int:
        """The local modes of the terminal (c_lflag)."""
        device = os.open(self._tmux("display-message", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        try:
            modes: int = termios.tcgetattr(device)[3]
            return modes
        finally:
            os.close(device)

    def type(self, text: str) -> None:
        """Keys, literally."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Keys by name: Enter, Down, Escape."""
        self._tmux("send-keys", *keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._tmux("kill-server")


class ShellScreen(Screen):
    """A terminal in which a shell runs the program, as at home, and writes down how that ended.

    tmux does not always notice that the program of a pane ended; a shell does.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        env: dict[str, str],
        cwd: Path,
        size: str = "140x45",
        *,
        limit: str = "",
    ) -> None:
        self._ended = folder / "ended"
        script = f'trap : INT; {f"ulimit {limit}; " if limit else ""}"$@"; echo $? >{shlex.quote(str(self._ended))}'
        super().__init__(folder, ["bash", "-c", script, "bash", *command], env, cwd, size)

    def wait_for_end(self, timeout: float = 90.0) -> int:
        """Until the program ended; its exit code."""
        deadline = time.monotonic() + timeout
        while not self._ended.exists() or not self._ended.read_text(encoding="utf-8").endswith("\n"):
            assert time.monotonic() < deadline, f"it did not end within {timeout:g} s\n{self.text()}"
            time.sleep(0.05)  # the pause between two looks
        return int(self._ended.read_text(encoding="utf-8"))
