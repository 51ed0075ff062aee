"""Every promise has a test, and every promise named by a test exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.requirements import PROMISES

HERE = Path(__file__).parent


@cache
def _marked() -> dict[str, list[str]]:
    """Return every id in a `req(...)` mark, with the files that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "req":
                for argument in node.args:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        found.setdefault(argument.value, []).append(path.name)
    return found


def test_every_promise_has_a_test_that_names_it() -> None:
    assert sorted(set(PROMISES) - set(_marked())) == []


def test_no_test_names_an_unknown_promise() -> None:
    unknown = {name: files for name, files in _marked().items() if name not in PROMISES}
    assert unknown == {}
