"""The promise list, checked both ways."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.requirements import PROMISES

HERE = Path(__file__).parent


@cache
def _named() -> dict[str, list[str]]:
    """Every id in a `req(...)` mark of the test files, with the files that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "req":
                for argument in node.args:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        found.setdefault(argument.value, []).append(path.name)
    return found


def test_every_promise_has_a_test_that_names_it() -> None:
    assert sorted(set(PROMISES) - set(_named())) == []


def test_no_test_names_a_promise_that_was_not_made() -> None:
    unknown = {name: files for name, files in _named().items() if name not in PROMISES}
    assert unknown == {}
