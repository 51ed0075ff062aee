"""An option that is given twice adds to a list or is an error: the first value is never silently dropped."""

from __future__ import annotations

import argparse
from argparse import Action, ArgumentParser, Namespace, _AppendAction, _StoreAction
from collections.abc import Iterator

import pytest
from docs.make_reference import parsers, values

from cortext.faces.terminal.args import Several
from cortext.faces.terminal.run import refuse_repeats
from cortext.testing.table import every_row
from tests.faces.pond import Pond, make_pond
from tests.support.cli import cortext

pytestmark = pytest.mark.req("LIB-04")
LISTS = {"--agent", "--ai", "--tool", "--type", "--tag", "--is", "--columns"}


def _options() -> Iterator[tuple[str, str, ArgumentParser, Action]]:
    for program in ("cortext", "aur", "alfred"):
        for command in values(program):
            for name, parser in parsers(program, command).items():
                for action in parser._actions:
                    if action.option_strings and action.nargs != 0:
                        yield name, action.option_strings[0], parser, action


OPTIONS = {f"{name} {option}": (parser, action) for name, option, parser, action in _options()}


@pytest.fixture(autouse=True)
def _as_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argparse._StoreAction, "__call__", argparse._StoreAction.__call__)
    refuse_repeats(argparse)


@every_row("name", OPTIONS)
def test_no_value_of_an_option_is_dropped(name: str) -> None:
    parser, action = OPTIONS[name]
    first, second = [*(action.choices or ("1", "2"))][:2]
    namespace = Namespace(**{action.dest: action.default})

    def given(value: str) -> None:
        converted = parser._get_value(action, str(value)) if action.type else value
        action(parser, namespace, converted, action.option_strings[0])

    given(first)
    if isinstance(action, _StoreAction):
        with pytest.raises(argparse.ArgumentError, match="given twice"):
            given(second)
        return
    assert isinstance(action, (_AppendAction, Several)), name
    given(second)
    value = getattr(namespace, action.dest)
    assert value == ([first, second] if isinstance(value, list) else f"{first},{second}")


def test_every_program_has_options_here() -> None:
    assert len(OPTIONS) > 60 and {name.split()[0] for name in OPTIONS} == {"cortext", "aur", "alfred"}
    assert {name.split()[-1] for name, (_, action) in OPTIONS.items() if isinstance(action, Several)} == LISTS


def test_init_sets_up_every_tool_that_is_named(pond: Pond) -> None:
    done = cortext("init", "--ai", "claude", "--ai", "gemini", cwd=pond.folder, env=pond.env)
    assert done.code == 0 and "Claude Code" in done.out and "Gemini CLI" in done.out
    assert (pond.folder / ".claude" / "settings.json").exists() and (pond.folder / ".gemini" / "settings.json").exists()


def test_a_second_value_is_refused_by_the_command(pond: Pond) -> None:
    done = cortext("list", "--limit", "1", "--lim", "2", cwd=pond.folder, env=pond.env)
    assert done.code == 2 and "--limit: given twice" in done.err
    done = cortext("list", "--tool", "claude", "--tool=gemini", "--json", cwd=pond.folder, env=pond.env)
    assert "The leaking boat" in done.out and "Herons at the pond" in done.out and "A long walk" not in done.out


def test_a_path_with_and_without_its_option_is_refused(pond: Pond) -> None:
    done = cortext("import", str(pond.folder), "--path", str(pond.home), cwd=pond.folder, env=pond.env)
    assert done.code == 2 and "a path was given twice" in done.err


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    return make_pond(tmp_path_factory.mktemp("repeats"))
