"""The settings of a session: which tools its model had."""

from __future__ import annotations

import pytest

from cortext.model.session import AgentConfig

SEARCH, ASK = "mcp__cortext__search_workspace", "mcp__cortext__get_context"


@pytest.mark.req("SELF-03")
@pytest.mark.parametrize(
    ("name", "had"),
    [
        (SEARCH, SEARCH),
        ("mcp_cortext_search_workspace", SEARCH),
        ("cortext_search_workspace", SEARCH),
        ("cortext-search_workspace", SEARCH),
        ("cortext.search_workspace", SEARCH),
        ("mcp__other-one__find__all", "mcp__other-one__find__all"),
        ("git.hub_issues", "mcp__git.hub__issues"),
        ("Read", ""),
        ("cortextual_search", ""),
        ("notes_cortext_search", ""),
        ("mcp__cortext", ""),
    ],
)
def test_a_tool_that_the_model_had_is_told_from_the_configured_ones(name: str, had: str) -> None:
    config = AgentConfig(tools_configured=[SEARCH, ASK, "mcp__git.hub__*", "mcp__broken__*"])
    after = config.with_tools(["Bash", name])
    assert after.tools == ([had] if had else [])
    gone = {had, "mcp__git.hub__*"} if "hub" in had else {had}
    assert after.tools_configured == [tool for tool in config.tools_configured if tool not in gone]
    assert after.with_tools([name]) is after


@pytest.mark.req("SELF-03")
def test_names_of_other_tools_stay_as_they_are() -> None:
    config = AgentConfig(tools=["read_file", "mcp__notes__add"])
    assert config.with_tools(["read_file", "notes_add"]) is config
    assert config.with_tools(["notes_remove"]).tools == ["mcp__notes__add", "mcp__notes__remove", "read_file"]
