"""A matrix of moves and tools: where a conversation continues, with which paths, and what the receipt says."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message, Part
from cortext.model.session import Origin, Session
from cortext.model.turns import Difference
from cortext.services.events.compaction import dropped
from cortext.services.library.resolve import with_exact_id
from cortext.services.library.stores import StoredConversation
from cortext.services.projects.projects import Projects
from cortext.services.resume.moved import place_of
from cortext.services.resume.planning import NEW, make_plan
from cortext.wiring import tools
from cortext.wiring.stores import Stores
from tests.services.test_repository import make_repository
from tests.support.cli import cortext, git
from tests.support.desk import NAMES
from tests.tools.claude_code.corpus import Script, call
from tests.tools.codex.corpus import Rollout

pytestmark = pytest.mark.req("TOOL-09")
KEY = "0b5c8a52-6f3d-4a63-9d7e-000000000001"


def hold(folder: Path, tool: str = "claude", *, record: bool = True, **extra: Any) -> StoredConversation:
    """Store a conversation that was held in this folder, as an import would."""
    known = Projects().record(str(folder)) if record else {}
    path = str(folder / "a.txt")
    session = Session(
        id=f"{tool}-held",
        title="Herons",
        status="paused",
        summary=f"Work in {folder}.",
        origin=Origin(tool=tool, session_id=KEY),
        extra={"project": str(folder), **known, **extra},
    )
    store = Stores().home_store().store
    store.create(session)
    store.append(
        session.id,
        Message(role="user", id="m1", content=f"Read {path}, not {folder}side."),
        Message(role="assistant", id="m2", parts=[Part("tool_call", id="c1", name="read", input={"path": path})]),
        Message(role="tool", id="m3", parts=[Part("tool_result", call_id="c1", output=f"{path}: still\n")]),
        Message(role="assistant", id="m4", content="It stands still."),
    )
    return with_exact_id(Stores().all(), session.id)[0]


def renamed(folder: Path) -> Path:
    return folder.rename(folder.with_name("lake"))


def moved(folder: Path) -> Path:
    target = folder.parent / "elsewhere" / "deep" / folder.name
    target.parent.mkdir(parents=True)
    return folder.rename(target)


def cloned(folder: Path) -> Path:
    git(folder.parent, "clone", "-q", str(folder), "clone")
    return folder.with_name("clone")


def cloned_and_deleted(folder: Path) -> Path:
    clone = cloned(folder)
    shutil.rmtree(folder)
    return clone


def worktree(folder: Path) -> Path:
    git(folder, "worktree", "add", "-q", str(folder.with_name("tree")))
    return folder.with_name("tree")


def another_home(folder: Path) -> Path:
    target = Path(os.environ["HOME"]) / folder.name
    return Path(shutil.move(folder, target))


MOVES = [renamed, moved, cloned, cloned_and_deleted, worktree, another_home]
Move = Callable[[Path], Path]


@pytest.fixture
def pond(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "home" / "bob" / "pond")


@pytest.mark.parametrize("tool", list(NAMES))
@pytest.mark.parametrize("move", MOVES)
def test_a_conversation_continues_where_its_project_is(
    pond: Path, move: Move, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = hold(pond, tool)
    now = move(pond)
    monkeypatch.chdir(now / "api")
    plan = make_plan(conversation, tools.native_writer(tool))
    assert (plan.project, plan.how) == (str(now), NEW)
    words = json.dumps([[message.content, [part.input for part in message.parts or ()]] for message in plan.carried])
    assert words.count(f"{now}/a.txt") == 2
    assert f"{pond}/" not in words
    assert f"{pond}side" in words, "another folder stays as it is"
    assert f"Summary: Work in {now}." in plan.prompt
    assert plan.receipt.changed[Difference.PATH] == 3
    assert plan.receipt.moved == {str(pond): str(now)}
    assert f"mapped     {pond} to {now}" in plan.receipt.lines()
    assert [message.id for message in plan.carried] == ["m1", "m2", "m3", "m4"]
    kept = [message.content for message in conversation.store.read(conversation.session.id)]
    assert kept[0] == f"Read {pond}/a.txt, not {pond}side.", "the store keeps the original words"


@pytest.mark.parametrize("move", MOVES)
def test_a_subfolder_keeps_its_path_inside_the_repository(
    pond: Path, move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = hold(pond / "api")
    now = move(pond)
    monkeypatch.chdir(now)
    place = place_of(conversation)
    assert place.folder == str(now / "api")
    assert place.paths.text(f"{pond}/api/x {pond}/web/y") == f"{now}/api/x {now}/web/y"


def test_a_folder_that_the_repository_no_longer_has_is_the_current_one(
    pond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = hold(pond / "api")
    shutil.rmtree(pond / "api")
    (pond / "web").mkdir()
    for here, folder in ((pond / "web", pond / "web"), (pond.parent, pond)):
        monkeypatch.chdir(here)
        Projects().repository(str(pond))
        assert place_of(conversation).folder == str(folder)


def test_the_same_folder_maps_nothing(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = hold(pond)
    for folder in (pond, pond / "api", pond.parent):
        monkeypatch.chdir(folder)
        plan = make_plan(conversation, tools.native_writer("claude"))
        assert plan.project == str(pond)
        assert (plan.receipt.moved, plan.receipt.changed, plan.warnings) == ({}, {}, [])


def test_another_project_is_not_mistaken_for_it(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = hold(pond)
    other = make_repository(pond.with_name("other"), file="b.txt")
    monkeypatch.chdir(other)
    assert place_of(conversation).folder == str(pond)
    renamed(pond)
    plan = make_plan(conversation, tools.native_writer("claude"))
    assert plan.project == str(other)
    assert plan.receipt.moved == {}
    assert any(f"its folder {pond} does not exist" in note for note in plan.warnings)


def test_a_known_folder_of_the_project_is_found_from_anywhere(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = hold(pond / "api")
    now = renamed(pond)
    Projects().repository(str(now))  # as a capture or a resume there does
    monkeypatch.chdir(pond.parent)
    assert place_of(conversation).folder == str(now / "api")


def test_a_conversation_captured_before_repositories_were_recorded_follows_too(
    pond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = hold(pond / "api", record=False)
    Projects().repository(str(pond))
    now = renamed(pond)
    monkeypatch.chdir(now)
    place = place_of(conversation)
    assert place.folder == str(now / "api")
    assert place.paths.text(f"{pond}/api/x {pond}/y") == f"{now}/api/x {now}/y"


def test_the_folder_that_is_no_fork_is_preferred(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(pond, "remote", "add", "origin", "https://host/ann/pond")
    conversation = hold(pond)
    fork = cloned(pond)
    git(fork, "remote", "set-url", "origin", "https://host/bob/pond")
    monkeypatch.chdir(fork)
    assert place_of(conversation).folder == str(pond)
    clone = pond.with_name("third")
    shutil.copytree(pond, clone)
    shutil.rmtree(pond)
    assert place_of(conversation).folder == str(fork), "the current one, if nothing better is known"
    Projects().repository(str(clone))
    monkeypatch.chdir(pond.parent)
    assert place_of(conversation).folder == str(clone)


def test_paths_of_every_earlier_folder_are_mapped(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = hold(pond, held_in=["/earlier/pond", str(pond)])
    now = renamed(pond)
    monkeypatch.chdir(now)
    assert place_of(conversation).paths.text(f"/earlier/pond/a {pond}/a {now}/a") == f"{now}/a {now}/a {now}/a"


def test_what_a_compaction_dropped_names_the_files_where_they_are(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = hold(pond)
    now = renamed(pond)
    monkeypatch.chdir(now)
    text = dropped(conversation, "Something was said.", 2_000, 20_000)
    assert f"{now}/a.txt" in text
    assert f"{pond}/" not in text


@pytest.mark.parametrize("extra", [{"held_in": ["/", "", 5]}, {"repository": {"roots": "x"}, "held_in": 7}])
def test_invalid_metadata_maps_nothing(pond: Path, extra: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = hold(pond, record=False, **extra)
    monkeypatch.chdir(pond)
    place = place_of(conversation)
    assert place.folder == str(pond)
    assert place.paths.text("/ /a /work/b") == "/ /a /work/b"


# ── through the commands ─────────────────────────────────────────────────────────────────────────────


def claude_transcript(folder: Path, key: str = KEY) -> None:
    """Write a conversation of Claude Code about a file in this folder."""
    script = Script(key, cwd=str(folder))
    script.user(f"Read {folder}/a.txt")
    script.assistant(call("toolu_1", command=f"cat {folder}/a.txt"), answer="m1")
    script.result("toolu_1", "still\n")
    script.assistant("It stands still.", answer="m2")
    projects = Path(os.environ["HOME"]) / ".claude" / "projects" / "p"
    projects.mkdir(parents=True, exist_ok=True)
    script.save(projects)


def listed(cwd: Path, *words: str) -> list[str]:
    done = cortext("list", "--json", *words, cwd=cwd)
    assert done.code == 0, done.err
    return [row["id"] for row in done.json]


def test_an_import_records_the_repository_and_the_list_finds_the_project_everywhere(pond: Path) -> None:
    git(pond, "remote", "add", "origin", "https://ann:s3cret@host/ann/pond.git")
    other = make_repository(pond.with_name("other"), file="b.txt")
    claude_transcript(pond / "api")
    claude_transcript(other, KEY[:-1] + "2")
    assert cortext("import", cwd=pond).code == 0
    rows = {row["project"]: row for row in cortext("list", "--json", cwd=pond).json}
    repository = rows[str(pond / "api")]["repository"]
    assert (repository["remotes"], repository["inside"]) == (["host/ann/pond"], "api")
    held, elsewhere = rows[str(pond / "api")]["id"], rows[str(other)]["id"]
    now = renamed(pond)
    assert listed(now, "--project") == listed(now / "api", "--project") == [held]
    assert listed(pond.parent, "--project", str(now)) == listed(now, "--project", str(pond)) == [held]
    assert listed(other, "--project") == [elsewhere]
    assert set(listed(pond.parent, "--project")) == {held, elsewhere}, "both were held below this folder"
    (now / "web").mkdir()
    assert listed(now / "web", "--project") == [], "nothing was held in this part of the repository"
    assert "No session matches." in cortext("list", "--project", "web", cwd=now).out
    hits = cortext("search", "stands still", "--project", ".", "--json", cwd=now).json
    assert {hit["session"]["id"] for hit in hits} == {held}
    hits = cortext("search", "stands still project:.", "--json", cwd=other).json
    assert {hit["session"]["id"] for hit in hits} == {elsewhere}


def test_the_list_of_a_project_has_its_workspace_too(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "w")
    assert cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
    (row,) = cortext("list", "--project", "--json", cwd=tmp_path / "tree").json
    assert (row["title"], row["project"]) == ("Herons", str(folder))


def test_at_the_next_import_an_older_session_gets_only_its_repository(pond: Path) -> None:
    claude_transcript(pond)
    assert cortext("import", cwd=pond).code == 0
    (path,) = Path(os.environ["HOME"]).rglob("session.json")
    fields = json.loads(path.read_text(encoding="utf-8"))
    repository = fields.pop("repository")
    path.write_text(json.dumps(fields), encoding="utf-8")
    assert cortext("list", cwd=pond).code == 0
    assert cortext("sync", cwd=pond).code == 0
    assert json.loads(path.read_text(encoding="utf-8")) == {**fields, "repository": repository}


def test_the_printed_packet_names_the_files_where_they_are(pond: Path) -> None:
    claude_transcript(pond)
    assert cortext("import", cwd=pond).code == 0
    now = renamed(pond)
    done = cortext("resume", f"claude-{KEY}", "--print", "--json", cwd=now)
    assert f"cat {now}/a.txt" in done.json["packet"]
    assert f"{pond}/" not in done.json["packet"]
    assert done.json["receipt"]["moved"] == {str(pond): str(now)}
    there = cortext("resume", f"claude-{KEY}", "--print", cwd=pond.parent).out
    assert f"cat {pond}/a.txt" in there, "this folder is not the project"


@pytest.mark.parametrize("tool", list(NAMES))
def test_a_pushed_workspace_has_its_paths_mapped_on_another_machine(tmp_path: Path, tool: str) -> None:
    folder = make_repository(tmp_path / "ann" / "w")
    assert cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    stores = Stores(str(folder))
    claude_transcript(folder / "api")
    stores.capture().attach(stores.workspace_store(), "001-plan-herons", "claude", KEY)
    assert cortext("sync", cwd=folder).code == 0
    (path,) = folder.glob("conversations/*/001-*/.session/session.json")
    assert json.loads(path.read_text(encoding="utf-8"))["held_in"] == [str(folder)]
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "herons")
    git(tmp_path, "clone", "-q", str(folder), "bob")
    here = cortext("resume", "001", "--ai", tool, "--dry-run", "--json", cwd=folder).json
    assert (here["cwd"], here["receipt"]["moved"]) == (str(folder), {})
    there = cortext("resume", "001", "--ai", tool, "--dry-run", "--json", cwd=tmp_path / "bob").json
    assert there["cwd"] == str(tmp_path / "bob")
    assert there["receipt"]["moved"] == {str(folder): str(tmp_path / "bob")}
    assert there["receipt"]["changed"][Difference.PATH] == 2


def test_a_conversation_without_its_folder_is_known_by_the_remote_codex_recorded(pond: Path) -> None:
    git(pond, "remote", "add", "origin", "https://host/ann/pond")
    rollout = Rollout(cwd="/gone/pond", git={"repository_url": "git@host:ann/pond.git"})
    rollout.user("Read /gone/pond/a.txt")
    rollout.save(Path(os.environ["HOME"]))
    assert cortext("import", cwd=pond).code == 0
    (row,) = cortext("list", "--project", "--json", cwd=pond).json
    assert (row["project"], row["repository"]) == ("/gone/pond", {"remotes": ["host/ann/pond"]})
    planned = cortext("resume", row["id"], "--ai", "claude", "--dry-run", "--json", cwd=pond).json
    assert (planned["cwd"], planned["receipt"]["moved"]) == (str(pond), {"/gone/pond": str(pond)})


def test_a_native_export_has_the_paths_of_today(pond: Path) -> None:
    claude_transcript(pond)
    assert cortext("import", cwd=pond).code == 0
    now = renamed(pond)
    done = cortext("export", f"claude-{KEY}", "--format", "native", "--ai", "codex", cwd=now)
    written = Path(done.out.strip()).read_text(encoding="utf-8")
    assert f"cat {now}/a.txt" in written
    assert f"{pond}/" not in written
