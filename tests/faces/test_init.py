"""`init`, `upgrade`, `uninstall` and `type add`, with the real command in real folders, for every AI tool."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from importlib import resources
from pathlib import Path

import pytest

from cortext.faces.cortext.main import run as main
from tests.support.cli import SCRIPTS, cortext, git, run

# Where each tool has its commands, its hooks, and the file with its MCP entry. OpenCode has all commands in the plugin.
COMMANDS = {
    "claude": ".claude/commands/workspace.{}.md",
    "gemini": ".gemini/commands/workspace.{}.toml",
    "opencode": ".opencode/plugin/cortext.js",
    "codex": ".agents/skills/workspace-{}/SKILL.md",
}
ENTRIES = {
    "claude": (".claude/settings.json", ".mcp.json"),
    "gemini": (".gemini/settings.json",),
    "opencode": (".opencode/plugin/cortext.js", "opencode.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
}
TYPES = ("brainstorm", "debug", "plan", "learn", "meeting", "review")

# Removes itself once the adapter has what the others have.
TOOLS = [
    pytest.param("claude"),
    pytest.param("gemini"),
    pytest.param("opencode"),
    pytest.param("codex"),
]
ALL = list(COMMANDS)
WITH_FILES = [tool for tool, path in COMMANDS.items() if "{}" in path]  # those with a file for each command

# The user's existing files, with their own formatting.
OWN = {
    ".claude/settings.json": '{"model": "opus",\n    "hooks": {"Stop": [{"hooks": [{"type": "command", '
    '"command": "notify-send done"}]}]},\n  "permissions": {"allow": ["Bash(ls:*)"]}}\n',
    ".gemini/settings.json": '{\n  // dark, please\n  "theme": "Dracula",\n'
    '  "mcpServers": {"mine": {"command": "my-server"}}\n}\n',
    "opencode.json": '{\n  // my model\n  "model": "anthropic/claude",\n  "mcp": {\n'
    '    "mine": {"type": "local", "command": ["x"]},\n  },\n}\n',
    ".codex/config.toml": '# mine\nmodel = "o3"\n\n[mcp_servers.mine]\ncommand = "x"   # aligned\n',
    ".gitattributes": "*.png binary\n*.sh text eol=lf",
    ".gitignore": "target/\n",
    "src/main.rs": "fn main() {}\n",
}


def _tree(folder: Path, *, without: tuple[str, ...] = (".git",)) -> dict[str, bytes | None]:
    """Return every file with its bytes and every folder as None, without the named top-level ones."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] not in without:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def _copy(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target, symlinks=True)
    return target


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a repository whose owner already uses all four tools. Do not change it: `repo` is a copy."""
    folder = tmp_path_factory.mktemp("original") / "repo"
    for name, text in OWN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "mine")
    return folder


def _init(folder: Path, *tools: str, home: str = "") -> None:
    done = cortext("init", str(folder), "--ai", ",".join(tools or ALL), env={"HOME": home} if home else None)
    assert done.code == 0, done.err


@pytest.fixture(scope="session")
def installed(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run `cortext init` in a copy once; `workspace` is a copy of it (nothing in it depends on its path)."""
    folder = tmp_path_factory.mktemp("installed")
    _init(_copy(original, folder / "repo"), home=str(folder))
    return folder / "repo"


@pytest.fixture
def repo(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the repository whose owner already uses all four tools."""
    return _copy(original, tmp_path / "repo")


@pytest.fixture
def workspace(installed: Path, tmp_path: Path) -> Path:
    """Return a copy of that repository after `cortext init`."""
    return _copy(installed, tmp_path / "workspace")


@pytest.mark.req("SESS-007")
@pytest.mark.parametrize("tool", TOOLS)
def test_init_creates_everything_the_tool_needs(tmp_path: Path, tool: str) -> None:
    folder = tmp_path / "deep" / "new"
    done = cortext("init", str(folder), "--ai", tool)
    assert done.code == 0, done.err
    assert "workspace.brainstorm" in done.out.replace("-", ".") and "cortext resume" in done.out
    assert ".gitignore" in done.out, "says that sessions contain private text, and how to keep them out of git"
    assert (folder / ".git").is_dir()
    registry = json.loads((folder / ".workspace/registry.json").read_text(encoding="utf-8"))
    assert sorted(registry["types"]) == sorted(TYPES)
    for name in TYPES:
        assert (folder / f".workspace/commands/{name}.md").stat().st_size > 400, "a real prompt"
        assert (folder / f".workspace/templates/{name}.md").is_file()
    for name in (*TYPES, "resume", "stop-conversation"):
        text = (folder / COMMANDS[tool].format(name)).read_text(encoding="utf-8")
        assert tool in WITH_FILES or f'"workspace.{name}": {{"description": ' in text
    for name in ENTRIES[tool]:
        assert "cortext" in (folder / name).read_text(encoding="utf-8")
    assert "merge=cortext" in (folder / ".gitattributes").read_text(encoding="utf-8")
    assert "merge-driver" in git(folder, "config", "merge.cortext.driver")
    others = {file for other, files in ENTRIES.items() if other != tool for file in files}
    assert not [name for name in others if (folder / name).exists()], "nothing for tools that were not named"


@pytest.mark.req("SESS-007")
def test_init_takes_all_four_tools_at_once(tmp_path: Path) -> None:
    _init(tmp_path, *COMMANDS)
    for tool, pattern in COMMANDS.items():
        assert (tmp_path / pattern.format("brainstorm")).is_file(), tool


@pytest.mark.req("SESS-007")
def test_a_second_init_changes_no_byte(workspace: Path) -> None:
    before, settings = _tree(workspace), (workspace / ".git/config").read_bytes()
    again = cortext("init", "--ai", ",".join(ALL), cwd=workspace)
    assert "everything is up to date" in again.out
    assert _tree(workspace) == before
    assert (workspace / ".git/config").read_bytes() == settings
    assert cortext("upgrade", cwd=workspace).out == "  everything is up to date\n"
    assert _tree(workspace) == before


@pytest.mark.req("SESS-007")
def test_auto_takes_the_tools_that_are_installed(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "codex").write_text('#!/bin/sh\necho "codex-cli 0.1.0"\n', encoding="utf-8")
    (programs / "codex").chmod(0o755)
    system = f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin"
    done = cortext("init", "w", "--json", cwd=tmp_path, env={"PATH": system})
    assert done.code == 0, done.err
    assert (tmp_path / "w" / COMMANDS["codex"].format("plan")).is_file()
    assert not (tmp_path / "w/.claude").exists()
    assert ".codex/config.toml" in done.json["merged"]


@pytest.mark.req("SESS-007")
def test_the_users_own_tool_settings_stay(workspace: Path) -> None:
    claude = json.loads((workspace / ".claude/settings.json").read_text(encoding="utf-8"))
    assert claude["model"] == "opus" and claude["permissions"] == {"allow": ["Bash(ls:*)"]}
    assert claude["hooks"]["Stop"][0]["hooks"][0]["command"] == "notify-send done"
    for name, words in (
        (".gemini/settings.json", ("// dark, please", '"theme": "Dracula"', '"mine": {"command": "my-server"}')),
        ("opencode.json", ("// my model", '"anthropic/claude"', '"mine": {"type": "local", "command": ["x"]}')),
        (".codex/config.toml", ("# mine\n", 'command = "x"   # aligned')),
        (".gitattributes", ("*.png binary\n*.sh text eol=lf\n",)),
    ):
        text = (workspace / name).read_text(encoding="utf-8")
        assert all(word in text for word in words), text
    assert git(workspace, "diff", "--cached", "--name-only") == "", "nothing is staged"


def _make_outdated(folder: Path, name: str) -> None:
    """Replace a file with one of an older version, known to the manifest."""
    (folder / name).write_text("the text of an older version\n", encoding="utf-8")
    path = folder / ".workspace/installed.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    manifest["version"] = "0.0.1"
    path.write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.req("SESS-007")
def test_upgrade_refreshes_unedited_files_and_names_the_edited_ones(workspace: Path) -> None:
    fresh = _tree(workspace)
    old = [".workspace/templates/plan.md", *(COMMANDS[tool].format("debug") for tool in ALL)]
    edited = [".workspace/templates/learn.md", *(COMMANDS[tool].format("review") for tool in WITH_FILES)]
    for name in old:
        _make_outdated(workspace, name)
    for name in edited:
        (workspace / name).write_text("my own words\n", encoding="utf-8")
    _make_outdated(workspace, ".workspace/templates/gone.md")
    before = _tree(workspace)
    dry = cortext("upgrade", "--dry-run", "--json", cwd=workspace).json
    assert _tree(workspace) == before, "a dry run changes nothing"
    done = cortext("upgrade", "--json", cwd=workspace).json
    assert dry == done
    assert sorted(done["written"]) == sorted([*old, ".workspace/installed.json"])
    assert sorted(done["kept"]) == sorted(edited)
    assert done["removed"] == [".workspace/templates/gone.md"]
    assert done["merged"] == []
    after = _tree(workspace)
    assert {name: after[name] for name in old} == {name: fresh[name] for name in old}
    assert all(after[name] == b"my own words\n" for name in edited)
    assert set(after) == set(fresh)
    said = cortext("upgrade", cwd=workspace).out
    assert all(f"kept, because you edited it: {name}" in said for name in edited)


def _lines(text: bytes) -> list[str]:
    """Return the lines of a file that are not empty; a line break in a string counts as one."""
    return [line.strip() for line in text.decode("utf-8").replace("\\n", "\n").splitlines() if line.strip()]


def _runs(text: bytes) -> set[tuple[str, ...]]:
    """Return every ten lines of a file that follow one another."""
    lines = _lines(text)
    return {tuple(lines[number : number + 10]) for number in range(len(lines) - 9)}


@pytest.mark.req("SESS-007")
def test_each_prompt_stands_in_one_file_for_all_four_tools(tmp_path: Path) -> None:
    _init(tmp_path / "w")
    files = _files(tmp_path / "w")
    del files[".git/config"]
    assert len(files) <= 66, sorted(files)
    shipped = resources.files("cortext").joinpath("workspace_files", "commands")
    for prompt in shipped.iterdir():
        of_prompt = _runs(prompt.read_bytes())
        holders = [name for name, text in files.items() if of_prompt & _runs(text)]
        assert holders == ([f".workspace/commands/{prompt.name}"] if prompt.name.removesuffix(".md") in TYPES else [])


@pytest.mark.req("SESS-007")
def test_every_tool_refers_to_the_prompt_that_the_user_edits(workspace: Path) -> None:
    before = _tree(workspace)
    for tool in ALL:
        text = (workspace / COMMANDS[tool].format("plan")).read_text(encoding="utf-8")
        assert ".workspace/commands/plan.md" in text, tool
    (workspace / ".workspace/commands/plan.md").write_text("# Plan the pirate way\n\n{arguments}\n", encoding="utf-8")
    assert cortext("upgrade", cwd=workspace).code == 0
    after = _tree(workspace)
    assert {name for name in before if before[name] != after[name]} == {".workspace/commands/plan.md"}


@pytest.mark.req("SESS-007")
def test_upgrade_replaces_the_prompts_of_an_earlier_version_unless_edited(workspace: Path) -> None:
    fresh = _tree(workspace)
    patterns = [*(COMMANDS[tool] for tool in WITH_FILES), ".opencode/command/workspace.{}.md"]
    edited = [pattern.format("learn") for pattern in patterns]
    for name in [*edited, *(pattern.format("plan") for pattern in patterns)]:
        (workspace / name).parent.mkdir(exist_ok=True)
        _make_outdated(workspace, name)
    for name in edited:
        (workspace / name).write_text("my own words\n", encoding="utf-8")
    done = cortext("upgrade", "--json", cwd=workspace).json
    assert sorted(done["kept"]) == sorted(edited)
    assert done["removed"] == [".opencode/command/workspace.plan.md"]
    after = _tree(workspace)
    assert all(after[name] == b"my own words\n" for name in edited)
    changed = {name for name in after if after[name] != fresh.get(name, b"")}
    assert changed == {*edited, ".opencode/command", ".workspace/installed.json", ".gitattributes"}
    assert set(fresh) <= set(after)


@pytest.mark.req("SESS-007")
def test_one_upgrade_brings_a_newer_prompt_to_every_tool(workspace: Path) -> None:
    fresh = _tree(workspace)
    _make_outdated(workspace, ".workspace/commands/plan.md")
    for tool in ALL:
        _make_outdated(workspace, COMMANDS[tool].format("plan"))
    assert cortext("upgrade", cwd=workspace).code == 0
    assert _tree(workspace) == fresh
    assert cortext("upgrade", cwd=workspace).out == "  everything is up to date\n"


def _files(folder: Path) -> dict[str, bytes]:
    """Return every visible file and git's config."""
    seen = {name: raw for name, raw in _tree(folder).items() if raw is not None and "/state/" not in name}
    return {**seen, ".git/config": (folder / ".git/config").read_bytes()}


def _changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _remove_entries(folder: Path) -> None:
    """Remove our entries from the tools' settings by hand, and keep the user's."""
    for name in (".claude/settings.json", ".mcp.json", ".codex/hooks.json", ".codex/config.toml", ".gitattributes"):
        (folder / name).unlink()
    for name in (".gemini/settings.json", "opencode.json"):
        (folder / name).write_text('{"theme": "mine"}\n', encoding="utf-8")
    git(folder, "config", "merge.cortext.driver", "something else")
    (folder / ".workspace/registry.json").unlink()
    _make_outdated(folder, COMMANDS["claude"].format("debug"))


@pytest.mark.req("SESS-007")
@pytest.mark.parametrize("command", ["upgrade", "uninstall"])
@pytest.mark.parametrize("state", ["fresh", "lost", "edited", "no git"])
def test_a_dry_run_says_exactly_what_the_command_then_does(workspace: Path, command: str, state: str) -> None:
    if state == "lost":
        _remove_entries(workspace)
    elif state == "edited":
        assert cortext("type", "add", "retro", cwd=workspace).code == 0
        (workspace / COMMANDS["gemini"].format("plan")).write_text("mine\n", encoding="utf-8")
        (workspace / ".workspace/commands/learn.md").write_text("mine too\n", encoding="utf-8")
        (workspace / COMMANDS["codex"].format("debug")).unlink()
    elif state == "no git":
        shutil.rmtree(workspace / ".git")
        (workspace / ".git").mkdir()  # not a repository, but _files looks there
        (workspace / ".git/config").write_bytes(b"")
    before = _files(workspace)
    dry = cortext(command, "--dry-run", "--json", cwd=workspace)
    output = cortext(command, "--dry-run", cwd=workspace)
    assert dry.code == output.code == 0, dry.err
    assert _files(workspace) == before, "a dry run changes nothing"
    done = cortext(command, "--json", cwd=workspace)
    assert done.json == dry.json
    named = {*done.json["written"], *done.json["removed"], *done.json["merged"]}
    changed = _changed(before, _files(workspace))
    assert {".git" if name == ".git/config" and state == "no git" else name for name in changed} == named
    if command == "uninstall" or state in ("lost", "edited"):
        assert "would be" in output.out
        assert named
    if state == "lost" and command == "upgrade":
        assert {".claude/settings.json", ".mcp.json", ".gemini/settings.json", "opencode.json", ".git/config"} <= {
            *done.json["merged"]
        }


@pytest.mark.req("SESS-007")
def test_uninstall_leaves_the_tree_as_it_was_before_init(original: Path, workspace: Path) -> None:
    before, settings = _tree(original), (original / ".git/config").read_bytes()
    assert _tree(workspace) != before
    dry = cortext("uninstall", "--dry-run", cwd=workspace)
    assert "would be removed" in dry.out
    middle = _tree(workspace)
    done = cortext("uninstall", cwd=workspace)
    assert done.code == 0, done.err
    assert "removed from" in done.out
    assert _tree(workspace) == before
    assert middle != before, "the dry run removed nothing"
    assert (workspace / ".git/config").read_bytes() == settings
    assert git(workspace, "status", "--porcelain") == ""


@pytest.mark.req("SESS-007")
@pytest.mark.parametrize("tool", TOOLS)
def test_uninstall_leaves_an_empty_folder_empty(tmp_path: Path, tool: str) -> None:
    folder = tmp_path / "new"
    _init(folder, tool)
    assert cortext("uninstall", cwd=folder).code == 0
    assert _tree(folder) == {}


@pytest.mark.req("SESS-007")
def test_uninstall_keeps_conversations_and_edited_files(original: Path, workspace: Path) -> None:
    before = _tree(original)
    cortext("new", "plan", "Keep me", cwd=workspace)
    cortext("new", "debug", "In the trash", cwd=workspace)
    cortext("delete", "002", cwd=workspace)
    edited = COMMANDS["claude"].format("plan")
    (workspace / edited).write_text("mine now\n", encoding="utf-8")
    kept = _tree(workspace / "conversations", without=())
    done = cortext("uninstall", cwd=workspace)
    assert f"kept, because you edited it: {edited}" in done.out
    assert _tree(workspace / "conversations", without=()) == kept
    assert kept
    rest = _tree(workspace, without=(".git", "conversations", ".workspace"))
    assert rest == {**before, ".claude/commands": None, edited: b"mine now\n"}
    state = [name for name in _tree(workspace / ".workspace", without=()) if not name.startswith("state")]
    assert state == [], "only the trash is left, because it contains a conversation"
    assert cortext("restore", "002-debug-in-the-trash", cwd=workspace).code == 0


@pytest.mark.req("SESS-007")
def test_uninstall_keeps_only_conversations_if_nothing_was_edited(original: Path, workspace: Path) -> None:
    before = _tree(original)
    cortext("new", "plan", "Keep me", cwd=workspace)
    assert cortext("uninstall", cwd=workspace).code == 0
    assert _tree(workspace, without=(".git", "conversations")) == before
    _init(workspace, "claude")
    assert [row["title"] for row in cortext("list", "--here", "--json", cwd=workspace).json] == ["Keep me"]


@pytest.mark.req("SESS-007", "LOOK-01")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".claude/settings.json", '{"hooks": ['),
        (".claude/settings.json", '{"hooks": {"Stop": "what"}}'),
        (".mcp.json", "[]"),
        pytest.param(".gemini/settings.json", '{"theme": '),
        ("opencode.json", '{"mcp": {"mine": }'),
        (".codex/config.toml", "model = \n"),
        (".codex/hooks.json", "nonsense"),
        (".workspace/registry.json", "{"),
        (".workspace/installed.json", "{"),
        (".workspace/config.toml", "[workspace\n"),
        (".gitattributes", "# >>> cortext\n*.x merge=cortext\n"),
    ],
)
def test_init_names_a_broken_user_file_and_changes_nothing(repo: Path, name: str, text: str) -> None:
    (repo / name).parent.mkdir(exist_ok=True)
    (repo / name).write_text(text, encoding="utf-8")
    before, settings = _tree(repo), (repo / ".git/config").read_bytes()
    done = cortext("init", "--ai", ",".join(ALL), cwd=repo)
    assert done.code == 7, (done.out, done.err)
    assert done.out == ""
    assert Path(name).name in done.err and "kept:" in done.err
    assert "Traceback" not in done.err
    assert _tree(repo) == before
    assert (repo / ".git/config").read_bytes() == settings


@pytest.mark.req("SESS-007", "LOOK-01")
def test_an_unknown_tool_is_refused_and_nothing_is_created(tmp_path: Path) -> None:
    done = cortext("init", "w", "--ai", "claude,eliza", cwd=tmp_path)
    assert done.code == 2
    assert "unknown AI tool 'eliza'" in done.err and "claude, gemini, opencode, codex" in done.err
    assert cortext("init", "w", "--ai", " , ", cwd=tmp_path).code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("SESS-007")
@pytest.mark.parametrize("tool", TOOLS)
def test_a_custom_type_is_a_command_in_the_tool(tmp_path: Path, tool: str) -> None:
    _init(tmp_path, tool)
    done = cortext("type", "add", "adr", "--description", "record a decision", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "Edit .workspace/commands/adr.md" in done.out
    assert "record a decision" in (tmp_path / COMMANDS[tool].format("adr")).read_text(encoding="utf-8")
    made = cortext("new", "adr", "Use", "SQLite", "--json", cwd=tmp_path).json
    assert made["id"] == "001-adr-use-sqlite"
    assert (Path(made["path"]) / "adr.md").read_text(encoding="utf-8").startswith("# Use SQLite\n")
    listed = [line.split(None, 2) for line in cortext("type", cwd=tmp_path).out.splitlines()]
    assert ["adr", "/workspace.adr", "record a decision"] in listed
    before = _tree(tmp_path)
    assert cortext("init", str(tmp_path), "--ai", tool).code == 0
    assert _tree(tmp_path) == before, "it survives a second init"
    packet = cortext("resume", "001", "--print", cwd=tmp_path).out
    assert "record a decision" in packet


@pytest.mark.req("SESS-007", "LOOK-01")
def test_an_invalid_or_taken_type_name_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _tree(workspace)
    monkeypatch.chdir(workspace)
    for name in ("Adr", "a b", "../x", "resume", "stop-conversation", "", "-x", "a" * 40, "ünï"):
        assert main(["type", "add", "--", name]) == 2, name
    done = cortext("type", "add", "plan", cwd=workspace)
    assert done.code != 0 and "the type plan already exists" in done.err
    assert _tree(workspace) == before


@pytest.mark.req("SESS-007", "LOOK-01")
def test_a_folder_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "gr\udcf6sse"
    folder.mkdir()
    done = cortext("init", ".", "--ai", "claude", cwd=folder)
    assert done.code == 6
    assert "is not UTF-8" in done.err and "gr\\udcf6sse" in done.err
    assert os.listdir(folder) == []
    (folder / ".workspace").mkdir()  # created by other means
    assert cortext("list", cwd=folder).code == 6
    assert cortext("list", cwd=tmp_path).code == 0


@pytest.mark.req("SESS-007")
def test_uninstall_names_the_timer_it_leaves(workspace: Path, tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert "timer" not in cortext("uninstall", "--dry-run", cwd=workspace, env=home).out
    assert cortext("init", "--ai", "claude", "--timer", cwd=workspace, env=home).code == 0
    for words in (["--dry-run"], []):
        assert "the timer stays" in cortext("uninstall", *words, cwd=workspace, env=home).out
    assert (tmp_path / "config/systemd/user/cortext-sweep.timer").is_file()


@pytest.mark.req("SESS-007")
def test_init_says_how_to_start_in_each_tool(tmp_path: Path) -> None:
    output = cortext("init", str(tmp_path / "all"), "--ai", ",".join(ALL)).out
    for line in ("Claude Code  /workspace.brainstorm TOPIC", "Gemini CLI   /workspace.brainstorm TOPIC"):
        assert line in output
    assert "Codex        $workspace-brainstorm TOPIC" in output and "Trust all and continue" in output
    assert 'choose "Use this MCP server"' in output and "Commit these files" in output
    shown = cortext("init", str(tmp_path / "all"), "--ai", ",".join(ALL), env={"COLUMNS": "80"}).out
    assert max(map(len, shown.replace(str(tmp_path), "").splitlines())) <= 80
    other = cortext("init", str(tmp_path / "one"), "--ai", "claude").out
    assert "Claude Code  /workspace" in other and "Codex" not in other and "Trust all" not in other


@pytest.mark.req("LOOK-01")
def test_init_and_doctor_warn_if_cortext_is_not_on_path(tmp_path: Path) -> None:
    alone_here = ["env", "PATH=/usr/bin:/bin", str(SCRIPTS / "cortext")]
    for words in (("init", "--ai", "claude"), ("doctor",)):
        alone = run([*alone_here, *words], cwd=tmp_path)
        assert alone.code == 0
        assert "`cortext` is not on PATH" in alone.err and f'export PATH="{SCRIPTS}:$PATH"' in alone.err
        assert "not on PATH" not in cortext(*words, cwd=tmp_path).err
    as_json = run(
        ["env", "PATH=/usr/bin:/bin", str(SCRIPTS / "cortext"), "init", "--ai", "claude", "--json"], cwd=tmp_path
    )
    assert json.loads(as_json.out)["merged"] == []
