"""Collect what users read: `python -m tests.wording.texts` writes help.txt and errors.txt from the code."""

from __future__ import annotations

import ast
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from docs.make_reference import parsers, values

from cortext import errors

HERE = Path(__file__).parent
SOURCE = Path(errors.__file__).parent
WIDTH = "100"  # columns of the screen that help is made for

ERRORS = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.CortextError)
}
FACTORIES = {name for name, value in vars(errors).items() if callable(value) and name.islower()}


def help_texts() -> str:
    """The help of every command of every program."""
    blocks = []
    for program in ("cortext", "aur", "alfred"):
        for command in values(program):
            blocks += [_help(name, parser) for name, parser in parsers(program, command).items()]
    return "\n".join(blocks)


def _help(name: str, parser: ArgumentParser) -> str:
    return f"$ {name} --help\n{parser.format_help()}"


def error_messages() -> str:
    """Every error that is raised with its words; `{…}` stands for what is filled in."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        found.update(_errors_in(ast.parse(path.read_text(encoding="utf-8"))))
    return "\n".join(sorted(found)) + "\n"


def _errors_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS | FACTORIES:
            words = [_text(argument) for argument in node.args]
            words += [f"{one.arg}: {_text(one.value)}" for one in node.keywords if one.arg]
            yield f"{node.func.id}: " + " | ".join(words)


def _text(node: ast.expr) -> str:
    """A text as it is written, with braces around what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(piece) for piece in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_text(node.body)} / {_text(node.orelse)}"
    return "{…}"


TEXTS = {"help.txt": help_texts, "errors.txt": error_messages}

if __name__ == "__main__":
    import os

    os.environ["COLUMNS"] = WIDTH
    for name, made in TEXTS.items():
        (HERE / name).write_text(made(), encoding="utf-8")
