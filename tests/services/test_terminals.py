"""A terminal is opened with exactly the command, whatever is in it: tmux, `$TERMINAL`, and Terminal on macOS."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortext.errors import NotFound
from cortext.services.resume.terminals import Terminal, available, open_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("PAGE-01")

WORDS = ["a b", "it's", 'say "ö"', "$HOME", "back\\slash", "*"]


def _program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def _lines(path: Path, count: int) -> list[str]:
    wait_until(lambda: path.exists() and len(path.read_text("utf-8").splitlines()) >= count, 30, f"{path} is written")
    return path.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("chosen", "before"),
    [
        ("xterm", ["-e"]),
        ("kitty -1 --title 'my talk'", ["-1", "--title", "my talk", "-e"]),
        ("gnome-terminal", ["--"]),
        ("xfce4-terminal", ["-x"]),
        ("wezterm", ["start", "--"]),
    ],
)
def test_the_command_reaches_the_chosen_terminal_word_by_word(tmp_path: Path, chosen: str, before: list[str]) -> None:
    out = tmp_path / "out"
    _program(tmp_path / "bin", shlex.split(chosen)[0], f'{{ pwd; for word; do echo "$word"; done; }} > {out}; sleep 1')
    terminal = available({"TERMINAL": chosen, "PATH": f"{tmp_path / 'bin'}"})
    assert terminal is not None and terminal.name == shlex.split(chosen)[0]
    folder = tmp_path / "a project"
    folder.mkdir()
    open_in(terminal, ["cortext", "resume", "014"], str(folder))
    assert _lines(out, 4) == [str(folder), *before, "cortext", "resume", "014"]


def test_a_terminal_that_cannot_start_is_reported(tmp_path: Path) -> None:
    program = _program(tmp_path / "bin", "xterm", "exit 3")
    with pytest.raises(NotFound, match="could not be opened") as raised:
        open_in(Terminal("xterm", "program", str(program)), ["true"], str(tmp_path))
    assert "paste the command" in raised.value.hint


@pytest.mark.parametrize("chosen", ["", "no-such-terminal", "'open"])
def test_without_a_terminal_none_is_offered(tmp_path: Path, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert available({"TERMINAL": chosen, "PATH": str(tmp_path)}) is None


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run inside a tmux server of our own."""
    socket = f"/tmp/cortext-tmux-{os.getpid()}"
    words = ["tmux", "-S", socket, "-f", "/dev/null"]
    subprocess.run([*words, "new-session", "-d", "-x", "120", "-y", "40", "sleep 300"], check=True)
    shown = subprocess.run([*words, "display-message", "-p", "#{pid}"], check=True, capture_output=True, text=True)
    monkeypatch.setenv("TMUX", f"{socket},{shown.stdout.strip()},0")
    yield
    subprocess.run([*words, "kill-server"], check=True)
    Path(socket).unlink(missing_ok=True)


def test_a_window_of_tmux_runs_the_command_in_the_folder(tmp_path: Path, tmux: None) -> None:
    terminal = available(os.environ)
    assert terminal is not None and terminal.kind == "tmux"
    out = tmp_path / "out"
    script = f'{{ pwd; for word; do echo "$word"; done; }} > {out}'
    open_in(terminal, ["sh", "-c", script, "name", *WORDS], str(tmp_path))
    assert _lines(out, 1 + len(WORDS)) == [str(tmp_path), *WORDS]


@pytest.mark.req("SAFE-11")
def test_a_hostile_name_of_a_folder_is_only_a_folder_for_tmux(tmp_path: Path, tmux: None) -> None:
    terminal = available(os.environ)
    assert terminal is not None
    for number, name in enumerate(("#(touch ran)", "#{pid}", "##[x", "a;", "%H")):
        folder = tmp_path / name
        folder.mkdir()
        out = tmp_path / f"out{number}"
        open_in(terminal, ["sh", "-c", f"pwd > {out}"], str(folder))
        assert _lines(out, 1) == [str(folder)]
    # tmux runs what a format names in the folder of its server, the one in which the tests run.
    assert not Path("ran").exists() and not list(tmp_path.rglob("ran"))


def test_the_terminal_of_macos_gets_one_quoted_script(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = _program(tmp_path / "bin", "osascript", f'printf "%s\\n" "$@" > {out}')
    open_in(Terminal("Terminal", "macos", str(program)), ["echo", *WORDS], str(tmp_path))
    option, script = _lines(out, 2)
    start = 'tell application "Terminal" to do script '
    assert option == "-e" and script.startswith(start)
    folder, *words = json.loads(script.removeprefix(start)).partition(" && ")[::2]
    assert shlex.split(folder) == ["cd", str(tmp_path)] and shlex.split(words[0]) == ["echo", *WORDS]
