"""The filters of the MCP tools by tag, star and archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faces.pond import Client, make_pond, served
from tests.support.cli import cortext

pytestmark = pytest.mark.req("ORDER-01")

TAGGED, STARRED, ARCHIVED = "001-plan-herons-at-the-pond", "002-debug-leaking-boat", "claude-tank"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    pond = make_pond(tmp_path_factory.mktemp("order"))
    for words in (("tag", TAGGED, "birds"), ("star", STARRED), ("archive", ARCHIVED)):
        assert cortext(*words, cwd=pond.folder, env=pond.env).code == 0
    with served(pond) as running:
        yield running


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_workspace", {"query": "herons"}),
        ("search_sessions", {"query": "herons"}),
        ("get_context", {"topic": "herons"}),
        ("get_decision_history", {"topic": "herons and the boat"}),
        ("list_sessions", {}),
    ],
)
def test_every_tool_that_finds_conversations_filters_them(client: Client, tool: str, arguments: dict[str, Any]) -> None:
    def found(**filters: object) -> set[str]:
        answer = client(tool, **arguments, **filters)
        assert not answer.failed, answer
        if tool == "list_sessions":
            return {row["id"] for row in answer.data["sessions"]}
        if tool == "get_decision_history":
            return {item["session"] for item in answer.data["decisions"]}
        return {item["session"]["id"] for item in answer.data["results"]}

    assert found(tag="birds") == {TAGGED}
    assert found(starred=True) == {STARRED}
    assert found(tag="birds", starred=True) == set()
    # Decisions are not in the archived conversation, and it is not in the workspace.
    is_elsewhere = tool in ("search_workspace", "get_decision_history")
    assert found(archived=True) == (set() if is_elsewhere else {ARCHIVED})
    assert {TAGGED, STARRED} <= found()
    assert client(tool, **arguments, tag="a b;").failed
