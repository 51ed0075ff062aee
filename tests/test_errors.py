"""The errors form the hierarchy shown in the docstring, each with a code and an exit status."""

from __future__ import annotations

import inspect
import re

import pytest

from cortext import errors
from cortext.errors import CortextError
from cortext.testing.table import every_row

TREE_LINE = re.compile(r"^(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:\s{2,}(?P<says>\S.*?))?(?:\s+exit (?P<exit>\d+))?$")


def classes() -> list[type[CortextError]]:
    found = [value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__]
    return [value for value in found if issubclass(value, CortextError)]


def documented() -> list[tuple[str, str, int | None]]:
    """Return name, parent and exit status of each line of the tree in the docstring."""
    lines = [match for line in (errors.__doc__ or "").splitlines() if (match := TREE_LINE.match(line))]
    path: list[str] = []
    rows: list[tuple[str, str, int | None]] = []
    for line in lines:
        depth = len(line["indent"]) // 4
        path = [*path[:depth], line["name"]]
        rows.append((line["name"], path[-2] if depth else "", int(line["exit"]) if line["exit"] else None))
    return rows


def test_the_documented_tree_is_the_class_hierarchy() -> None:
    real = {(each.__name__, each.__bases__[0].__name__ if each is not CortextError else "") for each in classes()}
    assert {(name, parent) for name, parent, _ in documented()} == real
    assert len(documented()) == len(real)


def test_the_exit_statuses_are_the_documented_ones() -> None:
    parents = {name: parent for name, parent, _ in documented()}
    statuses = {name: status for name, _, status in documented()}
    for each in classes():
        name: str = each.__name__
        while statuses[name] is None and parents[name]:
            name = parents[name]
        assert each.exit_status == (statuses[name] or 1), each.__name__


def test_every_error_has_a_unique_code() -> None:
    codes = [each.code for each in classes()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_no_exit_status_means_success_or_is_reserved_by_the_shell() -> None:
    assert all(0 < each.exit_status < 64 for each in classes())


@every_row("each", classes())
def test_an_error_says_what_happened_what_was_kept_and_what_to_do(each: type[CortextError]) -> None:
    error = each("it broke", kept="the rest", hint="fix it")
    assert str(error) == "it broke"
    assert error.as_dict() == {"code": each.code, "message": "it broke", "kept": "the rest", "hint": "fix it"}
    assert each("it broke").as_dict() == {"code": each.code, "message": "it broke"}
    with pytest.raises(CortextError, match="it broke"):
        raise error
