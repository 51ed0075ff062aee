"""Generate docs/reference.md, with every command and setting, from the code: `python docs/make_reference.py`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from cortext.agents.alfred import main as alfred
from cortext.agents.aur import main as aur
from cortext.config.schema import SETTINGS
from cortext.faces.cortext import main as cortext
from cortext.faces.terminal.run import load_command
from cortext.tools import registry
from cortext.tools.base import Headless, Hooks, Installer, NativeWriter, proof_of

HERE = Path(__file__).parent
HEAD = """\
# Reference

Every command with its options, and every setting. `docs/make_reference.py` generates this page from the code.
`cortext COMMAND --help` explains each command.
"""
SETTINGS_HEAD = """
## Settings

A setting is read from `~/.config/cortext/config.toml` (the part before the last dot is the table), from
`.workspace/config.toml`, and from an environment variable; each overrides the one before it. A workspace can set those
marked **untrusted** right away, and the others only after you run `cortext trust`.

| setting | default | untrusted | variable | meaning |
|---|---|---|---|---|
"""
TOOLS = """
## AI tools

The tools that cortext supports. All of them can be imported, synced, listed, searched and shown; the columns say what
else works. *Tested with the program* means that the tests run that version and check what it wrote, and what its model
received. *Tested with samples* means that the tests read conversations that were written from public descriptions of
the format. [Pairs of tools](pairs.md) shows what arrives when a conversation of one program is resumed in another.
Other packages can add tools: see [Adding a tool](adding-a-tool.md).

The exports of ChatGPT and Claude.ai are archives that you download from their settings: `cortext import FILE.zip`.

| name | tool | tested with | `resume` in it | `init` sets it up | hooks | as a model |
|---|---|---|---|---|---|---|
"""


PROOFS = {"program": "the program", "samples": "samples"}


class _Found(Exception):
    """Carries a command's parser out of the patched `parse_known_args`."""

    def __init__(self, parser: ArgumentParser) -> None:
        self.parser = parser


def values(program: str) -> dict[str, str]:
    """Return where each documented command of a program is; "" stands for the program without a command."""
    if program == "cortext":
        return cortext.commands()
    if program == "aur":
        return {name: f"{aur.PACKAGE}.{module}" for name, module in aur.COMMANDS.items()}
    return {"": alfred.CONVERSATION, **alfred.COMMANDS}


def parsers(program: str, command: str) -> dict[str, ArgumentParser]:
    """Return the parsers of a command and its subcommands, by name."""

    def capture(parser: ArgumentParser, *_: object) -> None:
        raise _Found(parser)

    value = values(program)[command]
    with mock.patch.object(ArgumentParser, "parse_known_args", capture):
        try:
            load_command(value).run(["--help"])
        except _Found as found:
            return dict(_with_children(f"{program} {command}".strip(), found.parser))
    raise AssertionError(f"{program} {command} never parses its arguments")


def _with_children(name: str, parser: ArgumentParser) -> Iterator[tuple[str, ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for word, child in action.choices.items():
                yield from _with_children(f"{name} {word}", child)


def options(parser: ArgumentParser) -> list[str]:
    """Return the options of a parser as they are typed."""
    return [
        ", ".join(action.option_strings) + (f" {action.metavar}" if isinstance(action.metavar, str) else "")
        for action in parser._actions
        if action.option_strings and "--help" not in action.option_strings
    ]


def tools() -> Iterator[str]:
    """Yield a table row per tool, with its adapter's capabilities."""
    for name in (*registry.BUILT_IN, *registry.READERS):
        tool = registry.load(name)
        tested = f"{PROOFS[proof_of(tool)]} {tool.tested_version}".strip()
        can = ("yes" if isinstance(tool, kind) else "" for kind in (NativeWriter, Installer, Hooks))
        model = f"`cli/{name}`" if isinstance(tool, Headless) else ""
        yield f"| `{name}` | {tool.title} | {tested} | {' | '.join(can)} | {model} |"


def page() -> str:
    """Return the text of the page."""
    lines = [HEAD]
    for program in ("cortext", "aur", "alfred"):
        lines += [f"## `{program}`", "", "| command | options |", "|---|---|"]
        for command in values(program):
            for name, parser in parsers(program, command).items():
                named = ", ".join(f"`{option}`" for option in options(parser))
                lines.append(f"| `{name}` | {named} |")
        lines.append("")
    rows: list[str] = []
    for setting in SETTINGS.values():
        default = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
        shown = f"`{default}`" if default else ""
        untrusted = "yes" if setting.untrusted_ok else ""
        rows.append(f"| `{setting.name}` | {shown} | {untrusted} | `{setting.variable}` | {setting.help} |")
    tables = TOOLS + "\n".join(tools()) + "\n" + SETTINGS_HEAD + "\n".join(rows) + "\n"
    return "\n".join(lines).rstrip() + "\n" + tables


if __name__ == "__main__":
    (HERE / "reference.md").write_text(page(), encoding="utf-8")
    sys.stdout.write("docs/reference.md\n")
