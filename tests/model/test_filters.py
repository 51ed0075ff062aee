"""A filter is declared once, in `model/query.py`: a new one is found in every face, and in SQL."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import QueryParams

from cortext.errors import UsageError
from cortext.faces.cortext.commands import browse, list_, search
from cortext.faces.mcp.calls import SPECS, arguments_of, decode
from cortext.faces.mcp.calls import filters_of as filters_of_call
from cortext.faces.terminal.args import filters_of, is_filtered
from cortext.index.search.query import parse
from cortext.index.sessions import SessionIndex
from cortext.model.query import ANY, FILTERS, Filter, Query, check_filters, of_sessions
from cortext.model.session import Session
from cortext.services.library.listing import row_of
from cortext.services.library.served_sessions import divided
from cortext.services.library.sources import meets, selection
from cortext.store.server_capabilities import COMPARED, COMPARED_IN_MESSAGES
from cortext.web import home

KIND = Filter("only sessions in this kind of store", column="kind", several=ANY, is_offered=True)


@pytest.fixture
def kind() -> Iterator[None]:
    """Declare one more filter, in one place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FILTERS, "kind", KIND)
        yield


def _options(parser: ArgumentParser) -> set[str]:
    return {action.dest for action in parser._actions}


@pytest.mark.usefixtures("kind")
def test_a_new_filter_is_an_option_of_every_command_that_filters() -> None:
    for module in (list_, search, browse):
        assert "kind" in _options(module.parser()), module
    options = list_.parser().parse_args(["--kind", "spawn", "--kind", "home"])
    assert filters_of(options) == {"kind": "spawn,home"} and is_filtered(options)


@pytest.mark.usefixtures("kind")
def test_a_new_filter_is_an_argument_of_every_tool_of_a_model_that_filters() -> None:
    for name, spec in SPECS.items():
        fields = arguments_of(spec).__struct_fields__
        assert ("kind" in fields) == ("tag" in fields) == bool(spec.filters), name
    call = decode(arguments_of(SPECS["list_sessions"]), {"kind": "spawn", "starred": True})
    assert filters_of_call(call) == {"kind": "spawn", "is": "starred"}


@pytest.mark.usefixtures("kind")
def test_a_new_filter_is_understood_by_the_library_the_page_and_the_text_of_a_query() -> None:
    check_filters({"kind": "spawn"}, of_sessions())
    assert home.filters_of(QueryParams("kind=spawn&kind=home"))["kind"] == "spawn,home"
    assert parse("retry kind:spawn").filters == {"kind": "spawn"}


@pytest.mark.usefixtures("kind")
def test_a_new_filter_is_a_condition_in_sql_and_of_a_session_on_a_server(tmp_path: Path) -> None:
    chosen = selection(Query(filters={"kind": "spawn,home"}), lambda folder: [])
    assert divided(chosen.where) == ([], [("kind", "spawn,home")])
    assert SessionIndex(str(tmp_path)).rows(["/store"], chosen.where) == []
    allowed = [meets(row_of(Session(id="one"), "/store", kind), "kind", "spawn,home") for kind in ("home", "chat")]
    assert allowed == [True, False]


def test_every_filter_is_in_every_face() -> None:
    flags = {flag for filter in FILTERS.values() for flag in filter.flags}
    listed = {name for name in of_sessions() if not FILTERS[name].flags}
    assert listed | flags <= _options(list_.parser())
    assert set(FILTERS) <= _options(search.parser())
    assert set(home.filters_of(QueryParams())) == set(FILTERS) - set(home.WITHOUT)
    for spec in SPECS.values():
        fields = set(arguments_of(spec).__struct_fields__)
        assert not spec.filters or (set(FILTERS) | flags) & fields, spec.title
        assert set(spec.without) <= set(FILTERS)
    assert {*COMPARED, *COMPARED_IN_MESSAGES} <= set(FILTERS)


def test_a_filter_that_is_not_declared_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown filter 'colour'"):
        check_filters({"colour": "blue"})
