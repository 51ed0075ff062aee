"""Agents: precedence of project, user and built-in files, files that are refused, and the trust in a project's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortext.agents.talk.agents import BUILT_IN, PROJECT, USER, find_agents, front_matter
from cortext.errors import NotFound
from tests.agents.aur.kit import Aur

CLAUDE = """\
---
name: code-reviewer
description: Expert reviewer. Use PROACTIVELY: after every change.
tools: Read, Grep, Glob
model: sonnet
---

You review code.
"""


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.req("SPAWN-12")
def test_the_built_in_agents_have_a_description_and_a_prompt(tmp_path: Path) -> None:
    found = find_agents(str(tmp_path))
    assert {"architect", "qa-test", "reviewer", "researcher", "writer", "assistant"} == set(found.known)
    assert found.problems == []
    for agent in found.known.values():
        assert agent.source == BUILT_IN and len(agent.description) > 20 and len(agent.prompt) > 200


@pytest.mark.req("SPAWN-12")
def test_the_projects_agents_precede_the_users_and_the_built_in_ones(tmp_path: Path, home: Path) -> None:
    repository = tmp_path / "repo"
    (repository / ".git").mkdir(parents=True)
    deep = repository / "src" / "deep"
    deep.mkdir(parents=True)
    write(repository / ".claude" / "agents", "code-reviewer.md", CLAUDE)
    write(repository / ".aurora" / "agents", "writer.md", "---\nmodel: cli/claude\n---\nThe project's writer.")
    write(home / ".config" / "cortext" / "agents", "writer.md", "---\nmodel: openai/x\n---\nMy writer.")
    write(home / ".config" / "cortext" / "agents", "coach.md", "---\nname: coach\nmodel: openai/x\n---\nYou coach.")
    write(tmp_path / ".claude" / "agents", "outside.md", "Not of this repository.")
    known = find_agents(str(deep)).known
    assert (known["code-reviewer"].source, known["code-reviewer"].tools) == (PROJECT, ["Read", "Grep", "Glob"])
    assert known["code-reviewer"].description.startswith("Expert reviewer. Use PROACTIVELY: after")
    assert known["code-reviewer"].model == "", "an alias of Claude Code names no provider"
    assert (known["writer"].prompt, known["writer"].model) == ("The project's writer.", ""), "a project's model"
    assert (known["coach"].source, known["coach"].model) == (USER, "openai/x")
    assert "outside" not in known
    found = find_agents(str(deep))
    assert found.get("writer").source == PROJECT
    assert found.get("writer", is_default=True).prompt == "My writer.", "a project must not replace a default agent"
    built_in = next(agent for agent in found.all if agent.name == "writer" and agent.source == BUILT_IN)
    assert found.get("writer", prompt_hash=built_in.prompt_hash) is built_in, "a session keeps its prompt"
    assert find_agents(str(home)).known["writer"].prompt == "My writer."


@pytest.mark.req("SPAWN-12", "SAFE-04")
def test_invalid_agent_files_are_reported_and_not_used(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / ".claude" / "agents"
    secret = write(home, "secret", "-----BEGIN KEY-----")
    write(folder, "empty.md", "---\nname: empty\n---\n  \n")
    (folder / "binary.md").write_bytes(b"\xff\xfe\x00")
    write(folder, "long.md", "x" * 300_000)
    write(folder, "escape.md", "---\nname: \x1b[31mred\n---\nprompt")
    (folder / "link.md").symlink_to(secret)
    (folder / "folder.md").mkdir()
    found = find_agents(str(tmp_path))
    assert len(found.problems) == 6 and "assistant" in found.known
    assert not any("BEGIN KEY" in agent.prompt for agent in found.known.values())
    with pytest.raises(NotFound, match="unknown agent 'revewer'") as error:
        found.get("revewer")
    assert "did you mean reviewer?" in error.value.hint
    assert found.get("@Reviewer").name == "reviewer" and found.get("QA test").name == "qa-test"
    os.unlink(folder / "link.md")
    (tmp_path / ".aurora").symlink_to(home)
    write(home / "agents", "linked.md", "Through a linked folder.")
    assert "linked" not in find_agents(str(tmp_path)).known


@pytest.mark.req("SPAWN-12", "SPAWN-04")
def test_a_resume_notes_a_changed_prompt_and_can_change_the_agent(aur: Aur) -> None:
    folder = aur.folder / ".aurora" / "agents"
    write(folder, "coach.md", "You coach.")
    assert aur("spawn", "One", "--agent", "coach", "--session", "talk").code == 0
    write(folder, "coach.md", "You coach better.")
    done = aur("spawn", "Two", "--resume", "talk")
    assert "the prompt of coach has changed since" in done.err
    assert aur("spawn", "Three", "--resume", "talk", "--agent", "writer").code == 0
    assert aur("spawn", "Four", "--resume", "talk").code == 0
    assert [request.texts("system")[0][:18] for request in aur.server.turns] == [
        "You coach.",
        "You coach better.",
        "You are a writer a",
        "You are a writer a",
    ]
    assert aur.lines("talk")[0]["agent"] == "writer"
    os.unlink(folder / "coach.md")
    aur.write("orphan", "coach")
    assert "unknown agent 'coach'" in aur("spawn", "Five", "--resume", "orphan").err


@pytest.mark.parametrize(
    ("text", "fields", "rest"),
    [
        ("no front matter", {}, "no front matter"),
        ("---\nname: x\nnever closed", {}, "---\nname: x\nnever closed"),
        ('---\nname: "a: b"\ntools: [Read, "Write"]\n---\nhi', {"name": "a: b", "tools": ["Read", "Write"]}, "hi"),
        ("---\r\ntools:\r\n  - Read\r\n  - Bash\r\n---\r\nhi", {"tools": ["Read", "Bash"]}, "hi"),
        ("---\ndescription: >\n  two\n  lines\n# note\n---\n", {"description": "two lines"}, ""),
        ("---\ndescription: one\n  more\n---\n", {"description": "one more"}, ""),
    ],
)
def test_front_matter_is_parsed(text: str, fields: dict[str, object], rest: str) -> None:
    assert front_matter(text) == (fields, rest)


@pytest.mark.req("SPAWN-12", "LOOK-01")
def test_aur_agents_lists_and_shows_them(aur: Aur) -> None:
    write(aur.folder / ".claude" / "agents", "code-reviewer.md", CLAUDE)
    write(aur.folder / ".claude" / "agents", "broken.md", "")
    done = aur("agents")
    assert done.code == 0 and "invalid agent" in done.err
    names = [line.split()[0] for line in done.out.splitlines()]
    assert names[:3] == ["AGENT", "architect", "assistant"] and "code-reviewer" in names
    assert aur("agents", "code-reviewer").out == "You review code.\n"
    assert aur("agents", "--json").json[2]["source"] == "project"
    assert aur("agents", "nobody").code == 1
