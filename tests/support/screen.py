"""A real terminal for interactive programs: tmux with a private socket, and polling instead of fixed delays."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import termios
import time
from pathlib import Path
from typing import Self

from tests.support.waiting import wait_for_exit_code, wait_until

_NUMBERS = itertools.count(1)
"""Each terminal has a socket of its own: the server of the one before in the same folder may be ending still."""


class Screen:
    """`with Screen(folder, command, env, cwd) as screen:`; the block's end kills everything in it.

    The file `log` gets the raw output.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        env: dict[str, str],
        cwd: Path,
        size: str = "140x45",
        *,
        log: Path | None = None,
    ) -> None:
        self.socket = folder / f"tmux{next(_NUMBERS)}.sock"
        width, height = size.split("x")
        wanted = {**env, "TERM": "tmux-256color", "COLORTERM": "truecolor"}
        line = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in wanted.items()), *command])
        # One sequence, so that a program that ends at once keeps its screen, and the log has all that is written.
        start = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"]
        start += ["new-session", "-d", "-x", width, "-y", height, "-c", str(cwd), line]
        if log is not None:
            start += [";", "pipe-pane", f"cat >{shlex.quote(str(log))}"]
        self._tmux("-f", "/dev/null", *start)

    def _tmux(self, *words: str, check: bool = True) -> str:
        command = ["tmux", "-S", str(self.socket), *words]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.socket.parent), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
        )
        assert not (check and done.returncode), f"tmux {words}: exit code {done.returncode}, {done.stderr}"
        return done.stdout

    def text(self) -> str:
        """Return the screen's contents and its scrollback."""
        return self._tmux("capture-pane", "-p", "-S", "-2000")

    def wait_for(self, *words: str, timeout: float = 90.0) -> str:
        """Wait until all these texts are on the screen; return its contents."""
        shown = ""

        def are_shown() -> bool:
            nonlocal shown
            shown = self.text()
            # A screen wraps long lines: compare without whitespace.
            flat = "".join(shown.split())
            return all("".join(word.split()) in flat for word in words)

        wait_until(are_shown, timeout, lambda: f"on the screen: {words}\n{shown}\n{self._state()}")
        return shown

    def _state(self) -> str:
        """Return what the pane's processes wait for: an empty screen does not say why it is empty."""
        pane = self._tmux("list-panes", "-F", "#{pane_pid} dead=#{pane_dead} status=#{pane_dead_status} #{pane_tty}")
        tree = [pane.strip()]
        ids = [pane.split()[0]]
        for number in ids:
            try:
                words = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                state = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
                waits = Path(f"/proc/{number}/wchan").read_text("utf-8")
                ids += Path(f"/proc/{number}/task/{number}/children").read_text("utf-8").split()
            except OSError:
                continue
            tree.append(f"{number} {state} {waits} {words}")
        return "\n".join(tree)

    def at_prompt(self, timeout: float = 90.0) -> Self:
        """Wait until our prompt reads single keys: before that, the terminal handles Ctrl-D and Ctrl-C itself.

        `screen.at_prompt().press("C-d")`
        """
        cooked = termios.ICANON | termios.ISIG
        wait_until(lambda: not self._modes() & cooked, timeout, lambda: f"a prompt\n{self.text()}")
        return self

    def process(self) -> int:
        """Return the id of the program's process."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def _modes(self) -> int:
        """Return the local modes of the terminal (c_lflag)."""
        try:
            device = os.open(self._tmux("display-message", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        except FileNotFoundError:
            raise AssertionError(f"the program has ended\n{self.text()}") from None
        try:
            modes: int = termios.tcgetattr(device)[3]
            return modes
        finally:
            os.close(device)

    def type(self, text: str) -> None:
        """Send this text."""
        self._tmux("send-keys", "-l", text)

    def paste(self, text: str, *, marked: bool) -> None:
        """Paste a text at once, as a terminal does that marks pastes if it is asked to, or as one that never does."""
        self._tmux("set-buffer", "--", text)
        self._tmux("paste-buffer", "-r", *(["-p"] if marked else []))

    def press(self, *keys: str) -> None:
        """Send keys by name: Enter, Down, Escape."""
        self._tmux("send-keys", *keys)

    def close(self, timeout: float = 60.0) -> None:
        """Close the terminal, and wait until the program has ended: it may have hooks that run then."""
        process = self.process()
        self._tmux("kill-server")
        wait_until(lambda: not _runs(process), timeout, "it ends with its terminal")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._tmux("kill-server", check=False)  # after `close` there is none


def _runs(process: int) -> bool:
    """Whether a process runs: one that has ended may wait for its new parent to notice."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class ShellScreen(Screen):
    """A terminal in which a shell runs the program and records its exit code.

    tmux does not always notice that the program of a pane exited; a shell does.
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
        self._ended = folder / f"ended{next(_NUMBERS)}"
        script = f'trap : INT; {f"ulimit {limit}; " if limit else ""}"$@"; echo $? >{shlex.quote(str(self._ended))}'
        super().__init__(folder, ["bash", "-c", script, "bash", *command], env, cwd, size)

    def wait_for_end(self, timeout: float = 90.0) -> int:
        """Wait until the program has exited; return its exit code."""
        return wait_for_exit_code(self._ended, timeout, self.text)

    def press_until_end(self, key: str, timeout: float) -> int:
        """Press a key again until the program exits: it may take the first one for a choice in a list."""
        deadline = time.monotonic() + timeout
        while True:
            self.press(key)
            try:
                return self.wait_for_end(5)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
