"""A stored value stays a value in the small languages of other programs: the real ones read what the encoders write."""

from __future__ import annotations

import ast
import plistlib
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from cortext.safety import languages
from cortext.services.capture import user_services
from cortext.services.projects.git import Git
from cortext.testing.table import every_row
from tests.support.cli import git

pytestmark = pytest.mark.req("SAFE-11")

SOURCE = Path(__file__).parents[2] / "src" / "cortext"
HOSTILE = (
    "#(touch ran)",
    "#{pid}#[bold]##[x",
    "%H%n%%",
    "$HOME `touch ran` $(touch ran)",
    "a;",
    "-rf",
    'say "it\'s"',
    "back\\slash\\",
    "two\nlines\r",
    "\x03\x04\x1b[201~\t",
    ":(exclude)*?[a]",
    "größer 🦩 \u202e",
    "<b onclick=x> & [a](b) *c* _d_ `e` | &amp;",
    "# 1. - title",
    "100%_of\\it",
)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_reads_back_every_word(shell: str, tmp_path: Path) -> None:
    line = languages.shell(["printf", "%s\\0", *HOSTILE])
    done = subprocess.run([shell, "-c", line], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout.decode("utf-8").split("\0")[:-1] == list(HOSTILE)
    assert not list(tmp_path.iterdir())


def test_a_line_to_be_typed_has_no_character_that_a_terminal_acts_on(tmp_path: Path) -> None:
    line = languages.typed(["printf", "%s\\0", *HOSTILE, "odd\udcff"])
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1] == [*HOSTILE, "odd\udcff"]
    assert languages.typed(["cd", "/a b/ö"]) == languages.shell(["cd", "/a b/ö"])


def test_an_applescript_literal_ends_where_the_text_ends() -> None:
    for text in HOSTILE:
        literal = languages.applescript(text)
        assert literal[0] == literal[-1] == '"' and "\n" not in literal and "\r" not in literal
        read, rest = "", literal[1:-1]
        while rest:  # as the language defines it: a backslash quotes the next character
            if rest[0] == "\\":
                read += {"n": "\n", "r": "\r", "t": "\t"}.get(rest[1], rest[1])
                rest = rest[2:]
            else:
                assert rest[0] != '"'
                read, rest = read + rest[0], rest[1:]
        assert read == text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_reads_a_command_with_hostile_names(tmp_path: Path) -> None:
    program = tmp_path / 'a "b" %H $HOME \\x41 é; `c`'
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    unit = tmp_path / "heron.service"
    values = {"HERON": 'a\nExecStartPre=/bin/touch ran\n%n "b" \\'}
    unit.write_bytes(user_services._systemd([str(program)], values))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    # A program that it cannot find, and a line that it cannot read, it names with the unit's path.
    assert "heron.service" not in done.stderr + done.stdout
    lines = unit.read_text("utf-8").splitlines()
    assert not [line for line in lines if line.startswith("ExecStartPre")]


def test_launchd_and_cron_get_words_and_no_syntax() -> None:
    words = [text for text in HOSTILE if text.isprintable()]
    assert plistlib.loads(languages.launchd({"ProgramArguments": words})) == {"ProgramArguments": words}
    given = ["printf", "%s\\0", *(text for text in HOSTILE if "\n" not in text), "100% \\% \\\\%"]
    done = subprocess.run(["sh", "-c", _as_cron_reads(languages.cron(given))], capture_output=True, check=True)
    assert done.stdout.decode("utf-8").split("\0")[:-1] == given[2:]


def _as_cron_reads(line: str) -> str:
    """Return what cron gives to the shell: up to a percent sign, except behind a backslash, which it takes away."""
    read, is_escaped = "", False
    for char in line:
        if char == "%":
            assert is_escaped, read
            read = read[:-1]
        read += char
        is_escaped = char == "\\" and not is_escaped
    return read


@every_row("text", HOSTILE)
def test_markdown_shows_the_text_and_nothing_else(text: str) -> None:
    shown = MarkdownIt().enable("table").parse(f"# {languages.markdown(text)}\n")
    assert [token.type for token in shown] == ["heading_open", "inline", "heading_close"]
    assert shown[1].children is not None
    assert {child.type for child in shown[1].children} <= {"text", "text_special"}
    printable = "".join(char for char in " ".join(text.split()) if char.isprintable())
    for word in printable.split():
        assert word in "".join(child.content for child in shown[1].children) or not word.isascii() or "\x1b" in text
    assert "\u202e" not in languages.markdown(text)


@every_row("text", HOSTILE)
def test_like_matches_a_text_literally(text: str) -> None:
    database = sqlite3.connect(":memory:")
    for stored, found in ((f"a {text} b", 1), ("anything else", 0), ("100 of it", 0)):
        query = "SELECT ? LIKE ? ESCAPE '\\'"
        assert database.execute(query, (stored, languages.sql_like(text))).fetchone()[0] == found
    database.close()


def test_git_takes_names_for_names_and_a_title_for_a_title(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.name", "Ann")
    git(tmp_path, "config", "user.email", "ann@example.org")
    for name in (":(exclude)*", "*", "[a]", "-rf", "plain"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    title = "A title\n\nSigned-off-by: Nobody <n@example.org>\x1b[31m"
    done = Git(str(tmp_path)).commit(["*", ":(exclude)*", "-rf", "[a]"], languages.git_subject(title))
    assert not done.problem
    assert sorted(git(tmp_path, "ls-files", "-z").split("\0")[:-1]) == sorted(["*", ":(exclude)*", "-rf", "[a]"])
    message = git(tmp_path, "log", "-1", "--format=%B")
    assert len(message.strip().splitlines()) == 1 and message.strip().isprintable()
    assert git(tmp_path, "log", "-1", "--format=%(trailers)").strip() == ""


# ── every place goes through its encoder ─────────────────────────────────────────────────────────────

# Where a program is started, and why what is stored can be no more than a word there.
STARTS = {
    "agents/aur/sessions.py": "our own program, with constant words",
    "faces/cortext/commands/_resume_one.py": "an AI tool, word by word: the plan's arguments",
    "faces/cortext/commands/demo.py": "git, in a folder that the demo makes",
    "faces/cortext/supervise.py": "ps, with constant words; our own program, with a tool and a session of it",
    "web/html/bounded.py": "Python itself, with constant words; the text is on standard input",
    "faces/terminal/run.py": "our own program, with constant words",
    "faces/terminal/pager.py": "the user's pager, with the text on standard input",
    "agents/llm/cli.py": "an AI tool, word by word; the conversation is on standard input",
    "services/capture/user_services.py": "systemctl and launchctl, with constant words",
    "services/resume/terminals.py": "a terminal: `languages.shell`, `tmux_words`, `applescript`",
    "services/projects/git.py": "git: literal pathspecs after `--`, the message on standard input",
    "services/workspace/running_chats.py": "ps, with the number of a process",
    "tools/shared/program.py": "an AI tool, word by word",
}
_STARTING = {"run", "Popen", "call", "check_call", "check_output", "system", "popen"}
_EXECUTING = {"posix_spawn", "posix_spawnp", "startfile", "create_subprocess_exec", "create_subprocess_shell"}


@cache
def _nodes(path: Path) -> list[ast.AST]:
    wanted = (ast.Call, ast.Constant, ast.JoinedStr)
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, wanted)]


def _calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Yield every call of `module.function` in a file, with that name."""
    for node in _nodes(path):
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            yield node, f"{function.value.id}.{function.attr}"


def _files() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), path


def _starts(name: str) -> bool:
    module, _, function = name.partition(".")
    if module == "subprocess":
        return function in _STARTING
    return (module == "os" and function.startswith(("exec", "spawn", "system", "popen"))) or function in _EXECUTING


def test_programs_are_started_only_where_the_table_says_how() -> None:
    found = {name for name, path in _files() if any(_starts(called) for _, called in _calls(path))}
    assert found == set(STARTS)


def test_no_program_is_started_through_a_shell() -> None:
    for name, path in _files():
        for call, called in _calls(path):
            assert called not in ("os.system", "os.popen", "asyncio.create_subprocess_shell"), name
            assert not [word for word in call.keywords if word.arg == "shell" and _starts(called)], name


def test_only_the_encoders_write_shell_and_service_files() -> None:
    for name, path in _files():
        if name == "safety/languages.py":
            continue
        used = {called for _, called in _calls(path)}
        assert not used & {"shlex.quote", "shlex.join", "pipes.quote", "plistlib.dumps"}, name


# What a unit file, a script or a query is made of; a place that fills one must be known to use the encoder.
FILLED = {
    "ExecStart=": {"services/capture/user_services.py", "agents/alfred/commands.py"},
    "tell application": {"services/resume/terminals.py"},
    "new-window": {"services/resume/terminals.py"},
    " LIKE %s": {"server/search.py"},
    "to_tsquery(": {"server/search.py"},
}


@pytest.mark.parametrize("sign", FILLED)
def test_such_a_text_is_made_only_in_known_places(sign: str) -> None:
    found = set()
    for name, path in _files():
        for node in _nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and sign in node.value:
                found.add(name)
    assert found - {"safety/languages.py"} == FILLED[sign]


def _in_attributes(path: Path) -> Iterator[ast.expr]:
    """Yield every expression that an f-string puts into an attribute of HTML."""
    for node in _nodes(path):
        if isinstance(node, ast.JoinedStr):
            for before, value in zip(node.values, node.values[1:], strict=False):
                is_open = isinstance(before, ast.Constant) and str(before.value).endswith(('="', "='"))
                if is_open and isinstance(value, ast.FormattedValue):
                    yield value.value


# Names for numbers and for words of ours.
NO_STORED_VALUE = {"title", "row.id", "place", "WIDTH", "CELL", "width", "height", "x"}


def test_an_attribute_of_html_has_an_escaped_value_or_a_number() -> None:
    for name, path in _files():
        if not name.startswith(("web/html/", "web/")):
            continue
        for value in _in_attributes(path):
            text = ast.unparse(value)
            is_sum = isinstance(value, ast.BinOp) and '"' not in text and "'" not in text
            assert text.startswith("escape(") or is_sum or text in NO_STORED_VALUE, f"{name}: {text}"
