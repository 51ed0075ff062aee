"""`cortext resume` waits for the tool: it reports one that fails at once, and leaves none behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cortext.faces.cortext import supervise
from cortext.faces.cortext.supervise import below
from tests.faces.test_rescue import KEYS, claude_session
from tests.support.cli import SCRIPTS, cortext
from tests.support.screen import Screen
from tests.support.waiting import wait_until

# As the programs of several tools do, a script starts the program itself, and dies of a signal without passing it on.
SCRIPT = """#!/bin/sh
[ "$1" = --version ] && echo 2.1.325 && exit 0
python3 -c 'if True:
    import os, signal
    signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
    print("number", os.getpid(), "listens", flush=True)
    while True:
        signal.pause()
'
exit 0
"""


@pytest.fixture
def env(home: Path, tmp_path: Path) -> dict[str, str]:
    """Return an environment with a stand-in for Claude Code, which holds one conversation."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(SCRIPT, encoding="utf-8")
    program.chmod(0o755)
    claude_session(home, 0, days_ago=1)
    assert cortext("import", cwd=tmp_path).code == 0
    return {**os.environ, "PATH": f"{program.parent}:{SCRIPTS}:{os.environ['PATH']}", "TERM": "xterm"}


@pytest.mark.req("FLOW-03")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_resume_does_not_leave_the_tool_behind(
    env: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    command = [
        "bash",
        "-c",
        '"$@"; echo "it ended with $?"; read',
        "bash",
        "cortext",
        "resume",
        f"claude-{KEYS[0]}",
        "--ai",
        "claude",
    ]
    # The shell stays: the end of the session would end every process in it.
    with Screen(tmp_path, command, env, tmp_path) as screen:
        shown = screen.wait_for("listens", timeout=15)
        screen.press("C-c")
        screen.wait_for("interrupted")  # the tool alone handles it
        tool = int(shown.split("number ")[1].split()[0])
        shell = int(screen._tmux("display-message", "-p", "#{pane_pid}"))
        resume = below(shell)[0]
        assert tool in below(resume)
        os.kill(resume, number)
        screen.wait_for(f"it ended with {128 + number}")
        wait_until(lambda: not os.path.exists(f"/proc/{tool}"), why="it is not left behind")


@pytest.mark.req("FLOW-03", "LOOK-01")
def test_a_tool_that_ends_at_once_with_an_error_is_reported(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "claude").write_text('#!/bin/sh\n[ "$1" = --version ] && echo 2.1.325 && exit 0\nexit 3\n')
    done = cortext("resume", f"claude-{KEYS[0]}", "--ai", "claude", cwd=tmp_path, env=env)
    assert done.code == 3
    (line,) = (line for line in done.err.splitlines() if "at once" in line)
    assert line.startswith("cortext: Claude Code ended at once with exit status 3; ")
    assert f"claude-{KEYS[0]} is kept as it was" in line and "--ai" in line


@pytest.mark.req("TRUE-02", "FLOW-03")
@pytest.mark.parametrize("last", ['rm "$file"', ': > "$file"', 'echo "{}" >> "$file"'], ids=["gone", "empty", "grown"])
def test_what_a_tool_has_lost_is_told_when_it_ends(env: dict[str, str], tmp_path: Path, last: str) -> None:
    spoil = f'for file in "$HOME"/.claude/projects/*/*.jsonl; do {last}; done'
    script = f'#!/bin/sh\n[ "$1" = --version ] && echo 2.1.325 && exit 0\n{spoil}\nexit 7\n'
    (tmp_path / "bin" / "claude").write_text(script)
    done = cortext("resume", f"claude-{KEYS[0]}", "--ai", "claude", cwd=tmp_path, env=env)
    assert done.code == 7, "the tool's own exit status"
    is_lost = "echo" not in last
    assert ("held only 0 of" in done.err and "--into claude" in done.err) == is_lost
    assert ("held only 0 of" in cortext("list", cwd=tmp_path).err) == is_lost


def test_the_program_that_waits_is_small() -> None:
    source = Path(supervise.__file__).read_text(encoding="utf-8")
    assert "cortext." not in source, "only the standard library: it is run without our packages"
