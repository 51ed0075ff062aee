"""Finding the program of a tool, asking for its version, and running it with a time limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.errors import UsageError
from cortext.services.workspace.installed_tools import untested
from cortext.tools.base import Detected
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.shared.program import Program, check_argument, run


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.req("TOOL-01")
def test_it_is_found_on_the_path_else_where_its_installer_puts_it(tmp_path: Path) -> None:
    own = script(tmp_path / "home/tool", "echo 1.0.0")
    environ = {"PATH": str(tmp_path / "bin")}
    assert Program("tool", environ).path() == ""
    assert Program("tool", environ).detect("1.0.0") is None
    assert Program("tool", environ, elsewhere=str(own)).path() == str(own)
    (tmp_path / "bin/tool").mkdir(parents=True)
    assert Program("tool", environ).path() == "", "a folder is not a program"
    (tmp_path / "bin/tool").rmdir()
    on_path = script(tmp_path / "bin/tool", "echo 1.0.0")
    assert Program("tool", environ, elsewhere=str(own)).path() == str(on_path)


@pytest.mark.req("TOOL-01")
def test_an_upgrade_is_noticed(tmp_path: Path) -> None:
    path = script(tmp_path / "tool", "echo tool 1.2.3-beta.4; echo 9.9.9 >&2; exit 1")
    program = Program("tool", {"PATH": str(tmp_path)})
    found = program.detect("1.2.3")
    assert found is not None and (found.program, found.version, found.tested) == (str(path), "1.2.3-beta.4", False)

    os.utime(script(path, "echo 1.2.4"), (1, 1))
    again = program.detect("1.2.4")
    assert again is not None and (again.version, again.tested) == ("1.2.4", True)


@pytest.mark.req("TOOL-01")
def test_the_version_of_a_python_program_is_read_from_its_environment(tmp_path: Path) -> None:
    program = script(tmp_path / "venv/bin/aider", "exit 1")
    packages = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    for name in ("aider_chat-0.86.2.dist-info", "aider_chat_tools-9.9.9.dist-info"):
        (packages / name).mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aider").symlink_to(program)

    found = Program("aider", {"PATH": str(tmp_path / "bin")}, distribution="aider-chat").detect("0.86.2")

    assert found is not None and (found.version, found.tested) == ("0.86.2", True)


def test_a_version_may_have_two_parts(tmp_path: Path) -> None:
    script(tmp_path / "tool", "echo tool, version 0.36")
    found = Program("tool", {"PATH": str(tmp_path)}).detect("0.36")
    assert found is not None
    assert (found.version, found.tested) == ("0.36", True)


def test_the_end_of_a_sentence_is_not_part_of_a_version(tmp_path: Path) -> None:
    script(tmp_path / "tool", "echo The Tool CLI 1.0.102.")
    found = Program("tool", {"PATH": str(tmp_path)}).detect("1.0.102")
    assert found is not None
    assert (found.version, found.tested) == ("1.0.102", True)


def test_a_program_that_reports_no_version_counts_as_installed(tmp_path: Path) -> None:
    script(tmp_path / "tool", "exit 3")
    found = Program("tool", {"PATH": str(tmp_path)}).detect("1.0.0")
    assert found is not None
    assert (found.version, found.tested) == ("", False)


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("9.9.9", "Claude Code 9.9.9 was not tested with cortext; 1.0.0 was"),
        ("", "the installed version of Claude Code is unknown; cortext is tested with 1.0.0"),
    ],
)
def test_the_note_about_an_untested_version_names_the_version(version: str, note: str) -> None:
    tool = ClaudeCode()
    tool.tested_version = "1.0.0"
    assert untested(tool, Detected(program="/bin/claude", version=version, tested=False)) == note
    assert untested(tool, Detected(program="/bin/claude", version=version, tested=True)) == ""
    assert untested(tool, None) == ""


def test_run_returns_the_output_and_kills_what_is_left_running(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read_end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    path = script(tmp_path / "tool", 'echo "$MORE $CORTEXT_SECRET"; pwd >&2; exec 3> pipe; sleep 600 & exit 5')
    environ = {"PATH": os.environ["PATH"], "CORTEXT_SECRET": "no"}

    done = run([str(path)], environ, cwd=str(tmp_path), seconds=60, env={"MORE": "yes"})

    assert (done.code, done.out, done.err) == (5, "yes \n", f"{os.path.realpath(tmp_path)}\n")
    os.set_blocking(read_end, True)
    assert os.read(read_end, 1) == b"", "no process has it open any more"
    os.close(read_end)


def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    path = script(tmp_path / "tool", "exec sleep 600")
    with pytest.raises(TimeoutError):
        run([str(path)], dict(os.environ), cwd=str(tmp_path), seconds=0.2)


def test_a_prompt_that_is_too_long_for_a_command_line_is_refused() -> None:
    check_argument("x" * (128 * 1024 - 1))
    with pytest.raises(UsageError, match="70,000 characters is too long"):
        check_argument("ü" * 70_000)
