"""The skill about cortext: installed for the tools that read `.agents/skills`, and correct."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from pathlib import Path

import pytest

from cortext.tools.shared.commands import agent_skill
from tests.support.cli import cortext

pytestmark = pytest.mark.req("SESS-007")

((PATH, TEXT),) = ((path, data.decode("utf-8")) for path, data in agent_skill().items())


def _init(folder: Path, tools: str) -> Path:
    done = cortext("init", str(folder), "--ai", tools)
    assert done.code == 0, done.err
    return folder / PATH


@pytest.mark.parametrize("tool", ["codex", "gemini", "opencode", "kimi", "pi", "vibe"])
def test_a_tool_that_reads_the_shared_folder_gets_the_skill(tmp_path: Path, tool: str) -> None:
    assert _init(tmp_path / "w", tool).read_text(encoding="utf-8") == TEXT
    assert cortext("uninstall", cwd=tmp_path / "w").code == 0
    assert not (tmp_path / "w" / ".agents").exists()


def test_a_tool_that_does_not_read_it_gets_none(tmp_path: Path) -> None:
    assert not _init(tmp_path / "w", "claude").exists()


def test_upgrade_replaces_an_older_skill_and_keeps_an_edited_one(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    skill = _init(folder, "codex,gemini")
    manifest = folder / ".workspace/installed.json"
    skill.write_text("an older version\n", encoding="utf-8")
    known = json.loads(manifest.read_text(encoding="utf-8"))
    known["files"][PATH] = hashlib.sha256(skill.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(known), encoding="utf-8")
    assert PATH in cortext("upgrade", "--json", cwd=folder).json["written"]
    assert skill.read_text(encoding="utf-8") == TEXT

    skill.write_text("my own\n", encoding="utf-8")
    assert cortext("upgrade", "--json", cwd=folder).json["kept"] == [PATH]
    assert PATH in cortext("uninstall", "--json", cwd=folder).json["kept"]
    assert skill.read_text(encoding="utf-8") == "my own\n"


def test_the_skill_has_the_form_that_tools_expect() -> None:
    head = re.match(r"---\nname: (\S+)\ndescription: ([^\n]+)\n---\n", TEXT)
    assert head is not None
    assert head[1] == Path(PATH).parent.name
    assert 100 < len(head[2]) <= 1024 and ": " not in head[2], "plain YAML"
    assert len(TEXT) < 3_000, "a model reads all of it"


def test_every_command_in_the_skill_is_one(tmp_path: Path) -> None:
    _init(tmp_path / "w", "codex")
    assert cortext("new", "plan", "Herons", cwd=tmp_path / "w").code == 0
    lines = [line for line in re.findall(r"`(cortext [^`]+)`", TEXT) if "COMMAND" not in line]
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line.replace("014", "001"))[1:]
        dry = ["--ai", "codex", "--dry-run"] if words[0] == "resume" and "--print" not in words else []
        done = cortext(*words, *dry, cwd=tmp_path / "w")
        nothing_found = words[0] == "search" and done.out.startswith("Nothing was found")
        assert done.code == 0 or nothing_found, f"{line}: {done.err}"
