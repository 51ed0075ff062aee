"""The documentation matches the code: every command, option, setting, variable and path it names exists, and every
command, option and setting is documented."""

from __future__ import annotations

import importlib
import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bench import __main__ as bench
from docs import make_reference as reference

from cortext.config import folders
from cortext.config.load import by_dotted_name, load
from cortext.config.schema import SETTINGS
from cortext.faces.cortext import main as cortext
from cortext.testing.table import every_row

REPOSITORY = Path(__file__).parent.parent
BENCH = REPOSITORY / "bench" / "README.md"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

# Options of other programs.
FOREIGN_OPTIONS = {"--quick", "--amend"}
# Names that only look like a setting or a path of the project.
EXAMPLES = {"store.append", "src/net/reply.py"}
# Files and folders of other programs.
FOREIGN_PATHS = ("~/.claude", "~/.gemini", "~/.codex", "~/.config/opencode", "~/.local/share/opencode", "~/.pgpass")


@cache
def _fences(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each fenced block."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [(language, text) for language, text in found]


@cache
def _spans(page: Path) -> list[str]:
    """Return the inline code spans outside fenced blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def _command_lines(page: Path) -> Iterator[list[str]]:
    """Yield each call of one of our commands as words, up to a comment or the next command of the line."""
    lines = [line for language, text in _fences(page) if language in ("", "sh", "bash") for line in text.splitlines()]
    for line in [*lines, *_spans(page)]:
        plain = re.sub(r"\"[^\"]*\"|'[^']*'", "WORDS", line.split("  #")[0])
        for piece in re.split(r"[|;]|&&", plain):
            words = piece.split()
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                words = words[1:]
            if words and words[0] in ("cortext", "aur", "alfred"):
                yield words


@cache
def _options(program: str, command: str) -> set[str]:
    """Return the options of a command and its subcommands."""
    found = {"--help", "-h", "--version", "-V"}
    if command in reference.values(program):
        for parser in reference.parsers(program, command).values():
            found |= set(parser._option_string_actions)
    return found


@cache
def _all_options() -> set[str]:
    programs = ("cortext", "aur", "alfred")
    return {option for one in programs for command in reference.values(one) for option in _options(one, command)}


@every_row("page", PAGES)
def test_every_command_and_option_on_a_page_exists(page: Path) -> None:
    wrong = []
    for words in _command_lines(page):
        program, rest = words[0], words[1:]
        command = rest[0] if rest and re.fullmatch(r"[a-z][a-z-]+", rest[0]) else ""
        if program == "alfred" and command not in reference.values("alfred"):
            command = ""
        elif command in cortext.HIDDEN:
            continue
        elif command and command not in (*reference.values(program), "help"):
            wrong.append(" ".join(words))
            continue
        wrong += [
            f"{' '.join(words)}: {word}"
            for word in rest
            if word.startswith("-") and len(word) > 1 and re.split("[=\\]]", word)[0] not in _options(program, command)
        ]
    for span in _spans(page):
        wrong += [word for word in re.findall(r"^--[a-z][a-z-]+", span) if word not in _all_options() | FOREIGN_OPTIONS]
    assert wrong == []


@every_row("page", PAGES)
def test_every_setting_on_a_page_exists(page: Path) -> None:
    tables = {name.partition(".")[0] for name in SETTINGS}
    names = [name for span in _spans(page) for name in re.findall(r"^([a-z]+(?:\.[a-z_]+)+)(?: =.*)?$", span)]
    wrong = [name for name in names if name.partition(".")[0] in tables and name not in SETTINGS]
    wrong = [name for name in wrong if name not in EXAMPLES and not name.endswith((".json", ".jsonl", ".md", ".toml"))]
    for language, text in _fences(page):
        if language == "toml":
            wrong += [
                name for name, _ in by_dotted_name(tomllib.loads(text)) if name not in SETTINGS and name != "store"
            ]
    assert wrong == []


def _source(page: Path) -> str:
    """Return the code that a page is about; those for contributors and for other servers are also about the tests."""
    with_tests = page.name in ("CONTRIBUTING.md", "scale.md")
    return "".join(_code(folder) for folder in (("src", "tests") if with_tests else ("src",)))


@cache
def _code(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPOSITORY / folder).rglob("*.py")))


@every_row("page", PAGES)
def test_every_variable_on_a_page_is_read_by_the_code(page: Path) -> None:
    text = " ".join([*_spans(page), *(text for _, text in _fences(page))])
    named = set(re.findall(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b", text))
    made = {"CORTEXT_" + name.replace(".", "_").upper() for name in SETTINGS}
    assert sorted(name for name in named if name not in made and name not in _source(page)) == []


def test_the_architecture_names_every_package_and_only_files_that_exist() -> None:
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    source = REPOSITORY / "src/cortext"
    folders = "|".join(path.name for path in source.iterdir() if path.is_dir())
    named = [name.replace("NAME", "codex") for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", page)]
    assert [name for name in named if not ((source / name).exists() or (source / f"{name}.py").exists())] == []
    packages = page.partition("## Packages")[2].partition("```\n\n")[0]
    own = [path.parent.relative_to(source) for path in source.rglob("__init__.py") if path.parent != source]
    listed = [path for path in own if path.parts[0] != "tools" and path.parts[-1] != "commands"]
    assert [str(path) for path in listed if f" {path.name}/" not in packages] == []


@every_row("page", PAGES)
def test_every_path_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = [link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) if not (page.parent / link).exists()]
    everything = [*_spans(page), *(line for _, block in _fences(page) for line in block.splitlines())]
    for words in everything:
        for path in re.findall(r"(?:^|[\s'\"])((?:src|tests|docs|bench|bin|\.ci)/[\w./-]*)", words):
            if path not in EXAMPLES and not (REPOSITORY / path.rstrip(".")).exists():
                wrong.append(path)
        for module in re.findall(r"python -m ((?:tests|bench)\.[\w.]+)", words):
            path = REPOSITORY / module.replace(".", "/")
            if module.rpartition(".")[2] != "NAME" and not (path.with_suffix(".py").exists() or path.is_dir()):
                wrong.append(module)
        wrong += [path for path in re.findall(r"(~/[\w./-]+)", words) if not _is_known(path, page)]
    assert wrong == []


def test_every_measurement_exists_and_is_explained() -> None:
    names = {name: subject for subject, names in bench.SUBJECTS.items() for name in names}
    for name, subject in names.items():
        assert getattr(importlib.import_module(f"bench.{subject}"), f"run_{name}").__doc__, name
    named = [set(re.findall(r"python -m bench ([a-z]\w*)", page.read_text("utf-8"))) for page in (BENCH, *PAGES)]
    assert (set(names) - named[0], set().union(*named) - set(names)) == (set(), set())


def _is_known(path: str, page: Path) -> bool:
    """Whether the code uses this path, or it belongs to another program."""
    settings = load()
    paths = [
        folders.data(),
        folders.state(),
        folders.cache(),
        os.path.dirname(folders.user_file()),
        folders.spawn_sessions(settings),
        folders.chat_sessions(settings),
        folders.assistant(settings),
    ]
    full = os.path.expanduser(path)
    within = [os.path.expanduser(folder) for folder in FOREIGN_PATHS] + paths
    return any(full.rstrip("/") == folder or full.startswith(folder + "/") for folder in within) or (
        path.rstrip("/").removeprefix("~/") in _source(page)
    )


def test_the_reference_is_generated_from_the_current_code() -> None:
    written = (REPOSITORY / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == reference.page(), "run `.venv/bin/python docs/make_reference.py`"


def test_the_readme_has_fewer_than_150_lines() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) < 150
