"""Two machines sharing a workspace end to end: real git, real commands, two clones and a bare remote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.codex.adapter import Codex
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.opencode.adapter import OpenCode
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import SCRIPTS, Ran, cortext, git, run
from tests.support.screen import Screen

SECRET = "ghp_" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"
LAPTOP = ["Laptop asks.", "Laptop is answered.", "Laptop asks again.", "Laptop is answered again."]


@pytest.fixture(autouse=True)
def git_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set git's identity, and put our command on PATH for the merge driver."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@localhost")


class Machine:
    """One machine: its own HOME and a clone of the workspace."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.workspace = folder / "notes"
        self._patch = monkeypatch

    def switch_to(self) -> None:
        """Switch the environment to this machine."""
        self._patch.setenv("HOME", str(self.home))
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self._patch.delenv(name, raising=False)

    def cortext(self, *words: str) -> Ran:
        """Run `cortext` in the workspace."""
        return cortext(*words, cwd=self.workspace)

    def git(self, *words: str) -> str:
        """Run git in the workspace."""
        return git(self.workspace, *words)

    def assert_committed(self) -> None:
        """Assert that no conversation file is left to commit."""
        assert self.git("status", "--porcelain", "--", "conversations") == ""

    def session(self, part: str = "") -> Path:
        """Return the `.session` folder of a conversation."""
        found = [path.parent for path in self.workspace.glob("conversations/*/*/.session/session.json")]
        only = [path for path in found if part in str(path)]
        assert len(only) == 1, found
        return only[0]

    def metadata(self, part: str = "") -> dict[str, object]:
        """Return the parsed session.json."""
        fields: dict[str, object] = json.loads((self.session(part) / "session.json").read_text(encoding="utf-8"))
        return fields

    def said(self, part: str = "") -> list[str]:
        """Return the message texts in order."""
        lines = (self.session(part) / "messages.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["content"] for line in lines]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Create the first machine, with a committed workspace."""
    machine = Machine(tmp_path / "a", monkeypatch)
    machine.switch_to()
    machine.workspace.mkdir()
    git(machine.workspace, "init", "-q", "-b", "main")
    assert machine.cortext("init", "--ai", "claude").code == 0
    machine.git("add", ".")
    machine.git("commit", "-qm", "workspace")
    return machine


@pytest.fixture
def laptop(desk: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Create the second machine, with nothing but access to the remote."""
    remote = tmp_path / "remote.git"
    run(["git", "init", "-q", "--bare", "-b", "main", str(remote)])
    desk.git("remote", "add", "origin", str(remote))
    desk.git("push", "-q", "-u", "origin", "main")
    return Machine(tmp_path / "b", monkeypatch)


def _begin(machine: Machine, topic: str = "API design") -> ClaudeTalk:
    talk = ClaudeTalk(machine.workspace)
    talk.prompt(f"/workspace.brainstorm {topic}")
    talk.answer("What is the core problem?")
    talk.say("REST or GraphQL?", "REST, because it is simple to operate.")
    return talk


@pytest.mark.req("FLOW-05")
def test_after_any_save_the_tree_is_clean(desk: Machine) -> None:
    talk = _begin(desk)
    talk.end()
    assert desk.metadata()["status"] == "paused"
    desk.assert_committed()
    talk.say("One more thing.", "Yes?", "That's enough for today, bye.", "Saved.")
    desk.assert_committed()
    talk.say("Back again.", "Welcome back.")
    talk.prompt("/workspace.stop-conversation")
    desk.assert_committed()
    talk.answer("It is saved; /workspace.resume goes on.")
    desk.assert_committed()
    talk.end()
    desk.assert_committed()
    assert desk.said()[-1] == "It is saved; /workspace.resume goes on."
    committed = desk.git("show", f"HEAD:{desk.session().relative_to(desk.workspace)}/messages.jsonl")
    assert "It is saved; /workspace.resume goes on." in committed
    talk.say("And again.", "Here.")
    assert desk.cortext("stop").code == 0
    desk.assert_committed()
    talk.say("Really last.", "Fine.")
    assert desk.cortext("sweep", "--minutes", "0").code == 0
    desk.assert_committed()
    talk.say("Truly.", "So be it.")
    assert desk.cortext("complete").code == 0
    desk.assert_committed()
    assert desk.metadata()["status"] == "completed"


@pytest.mark.req("FLOW-05")
def test_messages_that_sync_adds_to_a_paused_conversation_are_committed(desk: Machine) -> None:
    talk = _begin(desk)
    assert desk.cortext("stop").code == 0
    talk.write("One that no hook told of.", "Still kept.")
    done = desk.cortext("sync")
    assert done.code == 0, done.err
    desk.assert_committed()
    assert desk.metadata()["status"] == "paused"
    assert "Still kept." in desk.git("show", f"HEAD:{desk.session().relative_to(desk.workspace)}/messages.jsonl")
    # An active conversation is committed when its chat ends; a completed one stays completed.
    talk.prompt("Back again.")
    talk.write("", "Without a hook.")
    assert desk.cortext("sync").code == 0
    assert desk.metadata()["status"] == "active"
    assert desk.cortext("complete").code == 0
    talk.write("Really the end?", "Yes.")
    assert desk.cortext("import").code == 0
    desk.assert_committed()
    assert desk.metadata()["status"] == "completed"
    # With commits disabled, nothing is committed.
    before = desk.git("rev-parse", "HEAD")
    (desk.workspace / ".workspace" / "config.toml").write_text("[workspace]\ncommit = false\n", encoding="utf-8")
    talk.write("Not for git.", "No.")
    assert desk.cortext("sync").code == 0
    assert desk.said()[-1] == "No."
    assert desk.git("rev-parse", "HEAD") == before


@pytest.mark.req("FLOW-05", "SAFE-02")
def test_a_foreign_file_with_a_secret_stays_out_of_the_commit(desk: Machine) -> None:
    talk = _begin(desk)
    folder = desk.session().parent
    (folder / "plan.txt").write_text("nothing secret\n", encoding="utf-8")
    (folder / "deploy.sh").write_text(f"export GITHUB_TOKEN={SECRET}\n", encoding="utf-8")
    (folder / "brainstorm.md").write_text(f"# Notes\n{SECRET}\n", encoding="utf-8")
    talk.say("Which colour?", "Green.")
    done = desk.cortext("stop")
    assert done.code == 0, done.err
    assert "deploy.sh was not committed: it contains a secret" in done.out
    kept = desk.git("show", "--stat", "--format=", "HEAD")
    assert "plan.txt" in kept
    assert "deploy.sh" not in kept
    assert SECRET not in desk.git("log", "-p", "--all")
    assert SECRET in (folder / "deploy.sh").read_text(encoding="utf-8"), "a foreign file is not changed"


@pytest.mark.req("FLOW-05", "SAFE-12")
def test_a_file_with_a_secret_in_its_name_stays_out_of_the_commit(desk: Machine) -> None:
    talk = _begin(desk)
    folder = desk.session().parent
    for name in (f"{SECRET}.txt", f"notes-{SECRET}.md", f"密钥{SECRET}/plan.txt", "plan.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("nothing secret\n", encoding="utf-8")
    (folder / "link").symlink_to(f"../{SECRET}")
    talk.say("Which colour?", "Green.")
    done = desk.cortext("stop")
    assert done.code == 0, done.err
    assert SECRET not in done.out + done.err and done.out.count("its name has a secret in it (github-token)") == 3
    assert "link was not committed: it links to a path with a secret in it" in done.out
    assert "plan.txt" in desk.git("show", "--stat", "--format=", "HEAD")
    assert SECRET not in desk.git("log", "-p", "--all")
    assert (folder / f"{SECRET}.txt").exists(), "a foreign file is not renamed"


@pytest.mark.req("FLOW-05")
def test_two_machines_continue_at_once_and_git_pull_merges(desk: Machine, laptop: Machine, tmp_path: Path) -> None:
    talk = _begin_and_clone(desk, laptop, tmp_path)
    first = laptop.cortext("list")
    assert first.code == 0 and "API design" in first.out
    assert "merge" in first.err, "the first command says how it set up the clone"
    assert "cortext merge-driver" in laptop.git("config", "merge.cortext.driver")
    assert laptop.cortext("list").err == "", "and only once"
    assert "API design" in cortext("list", cwd=tmp_path).out, "the clone is known from outside"
    planned = laptop.cortext("resume", "001", "--dry-run", "--ai", "claude")
    assert planned.code == 0, planned.err
    assert laptop.git("status", "--porcelain") == "", "reading changed nothing"
    there = ClaudeTalk(laptop.workspace)
    there.prompt("/workspace.brainstorm Rate limits")
    there.answer("Per key or per address?")
    there.end()
    _continue(laptop, *LAPTOP)
    assert laptop.cortext("stop", "001").code == 0
    laptop.assert_committed()
    laptop.git("push", "-q")

    desk.switch_to()
    talk.say("Desk asks.", "Desk is answered.")
    talk.end()
    desk.assert_committed()
    pulled = run(["git", "-C", str(desk.workspace), "pull", "-q", "--no-rebase", "--no-edit"])
    assert pulled.code == 0, pulled.out + pulled.err
    said = desk.said("001-")
    assert said[-6:] == ["Desk asks.", "Desk is answered.", *LAPTOP]
    assert len(said) == len(set(said)), "nothing is duplicated"
    fields = desk.metadata("001-")
    assert fields["title"] == "API design" and fields["conversation_type"] == "brainstorm"
    assert fields["status"] == "paused" and fields["message_count"] == len(said)
    config = fields["agent_config"]
    assert isinstance(config, dict) and config["command"] == "/workspace.brainstorm"
    assert desk.said("002-")[-1] == "Per key or per address?"
    assert desk.git("status", "--porcelain") == ""
    assert desk.cortext("doctor").code == 0
    desk.git("push", "-q")

    laptop.switch_to()
    laptop.git("pull", "-q", "--no-rebase")
    assert laptop.said("001-") == said
    assert laptop.git("status", "--porcelain") == ""


def _continue(machine: Machine, *turns: str) -> None:
    """Continue a conversation in the tool, as after a resume."""
    key = str(machine.metadata("001-")["continuation"]["session_id"])  # type: ignore[index]
    talk = ClaudeTalk(machine.workspace, key)
    talk.say(*turns)


def _begin_and_clone(desk: Machine, laptop: Machine, tmp_path: Path) -> ClaudeTalk:
    """Begin a conversation on the desk and clone it to the laptop, which is used next; return the chat on the desk."""
    talk = _begin(desk)
    assert desk.cortext("stop").code == 0
    desk.git("push", "-q")
    laptop.switch_to()
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), str(laptop.workspace))
    return talk


def _go_on_apart(desk: Machine, laptop: Machine, tmp_path: Path) -> ClaudeTalk:
    """Have both machines continue a conversation; return the chat on the desk, which has not pulled."""
    talk = _begin_and_clone(desk, laptop, tmp_path)
    assert laptop.cortext("list").code == 0
    _continue(laptop, *LAPTOP)
    assert laptop.cortext("stop", "001").code == 0
    laptop.git("push", "-q")
    desk.switch_to()
    talk.say("Desk asks.", "Desk is answered.")
    talk.end()
    return talk


def _split(desk: Machine, laptop: Machine, tmp_path: Path) -> ClaudeTalk:
    """Have both machines continue a conversation, and merge; return the chat on the desk."""
    talk = _go_on_apart(desk, laptop, tmp_path)
    pulled = run(["git", "-C", str(desk.workspace), "pull", "-q", "--no-rebase", "--no-edit"])
    assert pulled.code == 0, pulled.out + pulled.err
    return talk


def _history(machine: Machine, *words: str) -> str:
    """Return the history of the first conversation that a resume would carry."""
    return machine.cortext("resume", "001", "--print", *words).out.partition("[END RESUMED CONTEXT]")[2]


@pytest.mark.req("SELF-04")
def test_what_two_machines_said_is_two_branches(desk: Machine, laptop: Machine, tmp_path: Path) -> None:
    _split(desk, laptop, tmp_path)
    assert "paused, 2 branches" in desk.cortext("list").out
    row = desk.cortext("list", "--json").json[0]
    assert (row["branch_count"], row["message_count"]) == (2, 10)
    shown = desk.cortext("show", "001", "--no-pager").out
    assert "2 branches" in shown
    assert "branch 1: 2 messages after message 3" in shown and "branch 2: 4 messages after message 3" in shown
    seam = shown.index("── A branch:")
    assert shown.index("Desk is answered.") < seam < shown.index("Laptop asks.")

    printed = desk.cortext("resume", "001", "--print").out
    assert "Branches: 2, joined" in printed
    parts = ("Desk is answered.", "[A branch: this conversation went on in two places at once.", *LAPTOP)
    places = [printed.rindex(part) for part in parts]
    assert places == sorted(places)
    assert "elsewhere, after message 3" in printed
    dry = desk.cortext("resume", "001", "--dry-run", "--ai", "claude").out
    assert "carried    10 of 10 messages" in dry and "branches   2, joined" in dry

    assert "Branches: 1 of 2" in desk.cortext("resume", "001", "--print", "--branch", "1").out
    only = _history(desk, "--branch", "1")
    assert "Desk is answered." in only and "Laptop asks." not in only and "A branch:" not in only
    dry = desk.cortext("resume", "001", "--dry-run", "--ai", "claude", "--branch", "2").out
    assert "carried    8 of 10 messages" in dry and "left out   2 × message on another branch" in dry
    assert "branches   2 of 2: 4 messages after message 3" in dry
    refused = desk.cortext("resume", "001", "--print", "--branch", "3")
    assert refused.code == 1 and "has no branch 3: it has 2" in refused.err


@pytest.mark.req("SELF-04")
def test_a_resume_joins_branches_or_continues_the_one_that_is_named(
    desk: Machine, laptop: Machine, tmp_path: Path
) -> None:
    open_window = _split(desk, laptop, tmp_path)
    chat = ClaudeTalk(desk.workspace, real_time=True)
    assert "has no branch 7" in chat.resume("001 --branch 7")
    assert "Laptop asks." in chat.resume("001 --branch 2")
    chat.say("On the laptop's way.", "Yes.")
    assert desk.cortext("list", "--json").json[0]["branch_count"] == 2
    only = _history(desk, "--branch", "2")
    assert "On the laptop's way." in only and "Desk asks." not in only
    chat.end()

    joined = ClaudeTalk(desk.workspace, real_time=True)
    answer = joined.resume("001")
    assert "it went on in 2 places at once, and all of them are joined here" in answer
    assert "Desk asks." in answer and "Laptop asks." in answer and "[A branch:" in answer
    joined.say("From both.", "Both.")
    assert "branch_count" not in desk.cortext("list", "--json").json[0], "one way goes on from both"
    printed = desk.cortext("resume", "001", "--print").out
    for text in ("Desk asks.", *LAPTOP, "On the laptop's way.", "From both."):
        assert text in printed
    # A window that was open all the time goes on where it was.
    open_window.prompt("Still at the desk?")
    open_window.answer("Yes.")
    assert desk.cortext("list", "--json").json[0]["branch_count"] == 2
    only = _history(desk, "--branch", "2")
    assert "Still at the desk?" in only and "Laptop asks." not in only and "From both." not in only


@pytest.mark.req("SELF-04")
def test_the_tool_that_is_opened_gets_the_seam(
    desk: Machine, laptop: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _split(desk, laptop, tmp_path)
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 2.1.0\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    # At a terminal it asks which branch; elsewhere they are joined.
    command = [str(SCRIPTS / "cortext"), "resume", "001", "--ai", "claude"]
    with Screen(tmp_path, command, dict(os.environ), desk.workspace) as screen:
        screen.wait_for("It went on in 2 places at once:", "2. 4 messages after message 3", "Continue which branch?")
        screen.type("3")
        screen.press("Enter")
        screen.wait_for("there is no branch '3'")
        screen.type("2")
        screen.press("Enter")
        screen.wait_for("carried    8 of 10 messages", "branches   2 of 2")
    sessions = desk.home / ".claude" / "projects"
    before = set(sessions.rglob("*.jsonl"))
    started = desk.cortext("resume", "001", "--ai", "claude")
    assert started.code == 0, started.err
    assert "carried    10 of 10 messages" in started.err and "branches   2, joined" in started.err
    (written,) = set(sessions.rglob("*.jsonl")) - before
    text = written.read_text(encoding="utf-8")
    assert text.index("Desk is answered.") < text.index("[A branch: this conversation") < text.index("Laptop asks.")
    talk = ClaudeTalk(desk.workspace, written.stem, real_time=True)
    talk.say("From both.", "Both.")
    said = desk.said()
    assert said[-2:] == ["From both.", "Both."] and len(said) == len(set(said)) == 12
    assert "A branch:" not in "".join(said), "the seam is never stored"
    assert "branch_count" not in desk.cortext("list", "--json").json[0]


@pytest.mark.req("FLOW-05")
def test_a_clone_with_only_the_conversations_says_what_is_missing(desk: Machine) -> None:
    desk.cortext("new", "plan", "Move to Postgres")
    assert desk.cortext("stop").code == 0
    desk.git("rm", "-rq", "--cached", ".workspace")
    desk.git("commit", "-qm", "the workspace's own files were never committed")
    desk.git("clone", "-q", ".", "../elsewhere")
    desk.workspace = desk.workspace.parent / "elsewhere"

    assert "cortext init" in desk.cortext("list", "--here").err

    desk.cortext("init", "--ai", "claude")
    assert "Move to Postgres" in desk.cortext("list", "--here").out


@pytest.mark.req("FLOW-05", "STORE-12")
@pytest.mark.parametrize("style", ["merge", "diff3"])
def test_a_git_conflict_is_repaired_like_a_merge(desk: Machine, laptop: Machine, tmp_path: Path, style: str) -> None:
    _go_on_apart(desk, laptop, tmp_path)
    before = desk.metadata()
    desk.git("config", "--remove-section", "merge.cortext")  # an old clone without the merge driver
    pulled = run(["git", "-C", str(desk.workspace), "-c", f"merge.conflictStyle={style}", "pull", "-q", "--no-rebase"])
    assert pulled.code != 0 and "<<<<<<<" in (desk.session() / "session.json").read_text(encoding="utf-8")

    listed = desk.cortext("list")
    assert "API design" in listed.out and "damaged" in listed.out
    repaired = desk.cortext("repair", "001")
    assert repaired.code == 0 and "git add" in repaired.out, repaired
    fields = desk.metadata()
    for name in ("title", "conversation_type", "agent_config", "created_at", "status"):
        assert fields[name] == before[name], name
    said = desk.said()
    assert said[-6:] == ["Desk asks.", "Desk is answered.", *LAPTOP]
    assert fields["message_count"] == len(said) == len(set(said))
    lines = (desk.session() / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-4])["extra"]["forked_from"] == json.loads(lines[3])["id"]
    desk.git("add", "conversations")
    desk.git("commit", "-qm", "merged")
    assert desk.cortext("doctor").code == 0


@pytest.mark.req("FLOW-05", "SESS-006b")
def test_ignored_temporary_and_unwanted_files_stay_out_of_git(desk: Machine) -> None:
    talk = _begin(desk)
    session = desk.session()
    (session / f".session.json.{os.getpid()}.1f.tmp").write_text('{"half', encoding="utf-8")
    assert desk.cortext("stop").code == 0
    assert ".tmp" not in desk.git("show", "--name-only", "--format=", "HEAD")

    (desk.workspace / ".gitignore").write_text(".session/\n", encoding="utf-8")
    desk.git("add", ".gitignore")
    desk.git("commit", "-qm", "sessions are private")
    talk.say("A private word.", "Understood.")
    (session.parent / "brainstorm.md").write_text("# Notes\n\nStill shared.\n", encoding="utf-8")
    talk.end()
    assert "A private word." in desk.said()
    assert desk.git("show", "--name-only", "--format=", "HEAD").split() == [
        str((session.parent / "brainstorm.md").relative_to(desk.workspace))
    ]
    report = desk.cortext("doctor")
    assert "git rm -r --cached" in report.out, "files that git still tracks are named"

    (desk.workspace / ".workspace" / "config.toml").write_text("[workspace]\ncommit = false\n", encoding="utf-8")
    (session.parent / "brainstorm.md").write_text("# Notes\n\nNot to be committed.\n", encoding="utf-8")
    head = desk.git("rev-parse", "HEAD")
    assert desk.cortext("stop", "001").code == 0
    assert desk.git("rev-parse", "HEAD") == head, "workspace.commit = false holds for stop too"


@pytest.mark.req("FLOW-08")
def test_a_list_changes_no_other_workspace_and_a_sweep_obeys_its_settings(desk: Machine, tmp_path: Path) -> None:
    _begin(desk, "Quiet since long")  # its messages are old
    (desk.workspace / ".workspace" / "config.toml").write_text("[workspace]\ncommit = false\n", encoding="utf-8")
    head = desk.git("rev-parse", "HEAD")
    _make_quiet(desk)
    other = tmp_path / "other"
    other.mkdir()
    assert cortext("init", "--ai", "claude", cwd=other).code == 0
    for folder in (other, tmp_path):
        listed = cortext("list", cwd=folder)
        assert listed.code == 0 and "Quiet since long" in listed.out and "paused" not in listed.err
    assert desk.metadata()["status"] == "active", "a list elsewhere pauses nothing here"
    assert cortext("sweep", cwd=other).code == 0
    assert desk.metadata()["status"] == "paused"
    assert desk.git("rev-parse", "HEAD") == head, "the settings of its own workspace apply"


def _make_quiet(machine: Machine) -> None:
    """Make a conversation look quiet for a long time."""
    path = machine.session() / "session.json"
    fields = {**machine.metadata(), "last_active": "2026-01-01T00:00:00Z"}
    path.write_text(json.dumps(fields, indent=2), encoding="utf-8")


@pytest.mark.req("FLOW-08")
def test_a_read_only_checkout_can_be_listed_searched_and_shown(desk: Machine) -> None:
    _begin(desk)
    _make_quiet(desk)
    # Root ignores permissions, so system calls are made to fail instead, as on a read-only mount.
    before = (desk.session() / "session.json").read_bytes()
    script = (
        "import errno, os, sys\n"
        "from cortext.io import durable\n"
        f"root = {str(desk.workspace)!r}\n"
        "def guard(name):\n"
        "    real = getattr(durable.calls, name)\n"
        "    def call(path, *rest, **named):\n"
        "        flags = rest[0] if name == 'open' and rest else os.O_WRONLY\n"
        "        if str(path).startswith(root) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):\n"
        "            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))\n"
        "        return real(path, *rest, **named)\n"
        "    setattr(durable.calls, name, call)\n"
        "for name in ('open', 'mkdir', 'rename', 'unlink', 'rmdir'):\n"
        "    guard(name)\n"
        "os.access = lambda path, mode: mode & os.W_OK == 0\n"
        "from cortext.faces.cortext.main import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    for words in (["list"], ["show", "001"], ["search", "GraphQL"], ["resume", "--list"], ["stats"], []):
        done = run([sys.executable, "-c", script, *words], cwd=desk.workspace)
        assert done.code == 0 and "Traceback" not in done.err, (words, done.err)
        assert "could not" not in done.err, (words, done.err)
    assert (desk.session() / "session.json").read_bytes() == before


@pytest.mark.req("FLOW-05", "SAFE-02")
def test_a_secret_in_a_title_or_in_the_notes_never_reaches_git(desk: Machine) -> None:
    talk = ClaudeTalk(desk.workspace)
    talk.prompt(f"/workspace.brainstorm Rotate {SECRET} now")
    talk.answer("Which service is it for?")
    notes = next(desk.session().parent.glob("*.md"))
    written = f"# Rotation\n\nThe old one is {SECRET}.\n"
    notes.write_text(written, encoding="utf-8")
    talk.end()
    made = desk.cortext("new", "plan", f"Use {SECRET}", "--json")
    assert made.code == 0
    said = desk.cortext("stop", made.json["id"])
    assert said.code == 0 and SECRET not in said.out
    assert desk.cortext("title", "001", f"About {SECRET}").code == 0
    stopped = desk.cortext("stop", "001")
    assert stopped.code == 0
    assert f"{notes.name} was not committed: it contains a secret (github-token)" in " ".join(stopped.out.split())
    kept = desk.git("log", "-p", "--format=%H %s%n%b", "--name-only", "--all") + desk.git("log", "-p", "--all")
    assert SECRET not in kept and SECRET.lower() not in kept.lower()
    for path in (desk.workspace / "conversations").rglob("*"):
        assert SECRET.lower() not in str(path).lower()
        assert path.is_dir() or path == notes or SECRET.encode() not in path.read_bytes(), path
    assert notes.read_text(encoding="utf-8") == written, "the notes are the user's"


@pytest.mark.req("FLOW-05", "SESS-006a")
def test_conversations_that_end_at_the_same_time_are_all_committed(desk: Machine) -> None:
    talks = [_begin(desk, f"Talk number {number}") for number in range(4)]
    events = [
        json.dumps(
            {
                "session_id": talk.key,
                "transcript_path": str(talk.path),
                "cwd": str(desk.workspace),
                "hook_event_name": "SessionEnd",
                "reason": "prompt_input_exit",
            }
        )
        for talk in talks
    ]
    ending = [
        subprocess.Popen([str(SCRIPTS / "cortext"), "hook", "claude"], stdin=subprocess.PIPE, cwd=desk.workspace)
        for _ in events
    ]
    for process, event in zip(ending, events, strict=True):
        assert process.stdin is not None
        process.stdin.write(event.encode())
        process.stdin.close()
    for process in ending:
        assert process.wait(timeout=120) == 0
    desk.assert_committed()
    subjects = desk.git("log", "--format=%s")
    assert all(f"Talk number {number}" in subjects for number in range(4))


@pytest.mark.req("FLOW-05", "SESS-006a")
def test_a_failed_commit_is_reported_and_made_at_the_next_save(desk: Machine) -> None:
    hook = _hook(desk, "echo 'not today' >&2; exit 1")
    _begin(desk, "Refused").end()
    listed = desk.cortext("list")
    assert "not committed" in listed.err and "not today" in listed.err
    assert "not committed" in desk.cortext("doctor").out
    hook.unlink()
    _begin(desk, "Taken").end()
    desk.assert_committed()
    assert "Refused" in desk.git("log", "--format=%s")
    assert "not committed" not in desk.cortext("list").err


def _hook(machine: Machine, script: str) -> Path:
    path = machine.workspace / ".git" / "hooks" / "pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


FORMATTER = f"""
for file in $(git diff --cached --name-only | grep jsonl); do
  {sys.executable} -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
open(sys.argv[1], "w").write("\\n".join(json.dumps(line, indent=2, sort_keys=True) for line in lines))
' "$file"
  git add "$file"
done
"""


@pytest.mark.req("FLOW-05", "SESS-006a")
@pytest.mark.parametrize("ends", ["exit 0", "exit 1"])
def test_a_formatting_hook_does_not_damage_a_session(desk: Machine, ends: str) -> None:
    talk = _begin(desk)
    _hook(desk, FORMATTER + ends)
    before = (desk.session() / "messages.jsonl").read_bytes()
    stopped = desk.cortext("stop")
    assert stopped.code == 0 and "git hook rewrites" in stopped.out
    assert (desk.session() / "messages.jsonl").read_bytes() == before
    assert desk.cortext("doctor").code == 0
    if ends == "exit 0":
        desk.assert_committed()
        committed = desk.git("show", f"HEAD:{desk.session().relative_to(desk.workspace)}/messages.jsonl")
        assert committed.encode() == before
    else:
        assert "refused the commit" in stopped.out and "not committed" in desk.cortext("list").err
    talk.say("Still whole?", "Whole.")
    talk.end()
    assert desk.said()[-1] == "Whole." and desk.cortext("doctor").code == 0


@pytest.mark.req("FLOW-05")
def test_doctor_checks_driver_hooks_and_path(desk: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, version in (("claude", ClaudeCode.tested_version), ("codex", Codex.tested_version)):
        (programs / name).write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert desk.cortext("init", "--ai", "claude,codex").code == 0
    report = desk.cortext("doctor")
    assert (
        report.code == 0
        and "Codex does not run our hooks: they are not trusted yet" in report.out
        and "Trust all" in report.out
    )
    assert "Nothing is damaged; see the warnings above." in report.out and "No problems found" not in report.out
    assert "merge driver" not in report.out and "PATH" not in report.out and "Claude" not in report.out
    _trust_codex(desk)
    assert "Codex" not in desk.cortext("doctor").out

    desk.git("config", "--remove-section", "merge.cortext")
    (desk.workspace / ".claude" / "settings.json").write_text("{}\n", encoding="utf-8")
    without = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != str(SCRIPTS))
    elsewhere = run(
        [sys.executable, "-m", "cortext.faces.cortext.main", "doctor"],
        cwd=tmp_path,
        env={"PATH": without, "PYTHONSAFEPATH": "1"},
    )
    assert elsewhere.code == 0, elsewhere
    assert "git has no merge driver here" in elsewhere.out
    assert "Claude Code: our hooks or MCP entry are not in .claude/settings.json" in elsewhere.out
    assert "`cortext` is not on PATH" in elsewhere.out
    assert desk.cortext("upgrade").code == 0
    assert "warning" not in desk.cortext("doctor").out


@pytest.mark.req("FLOW-05")
def test_doctor_checks_the_other_workspaces_despite_a_broken_settings_file(desk: Machine, tmp_path: Path) -> None:
    config = desk.workspace / ".workspace" / "config.toml"
    assert cortext("init", str(tmp_path / "other"), "--ai", "opencode").code == 0
    config.write_text("[workspace\n", encoding="utf-8")
    done = cortext("doctor", cwd=tmp_path)
    assert done.code == 0 and str(config) in " ".join(done.out.split())


@pytest.mark.req("FLOW-05", "TOOL-01")
def test_doctor_reports_what_keeps_a_tool_from_running_our_hooks(
    desk: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    tested = {
        "claude": ClaudeCode.tested_version,
        "gemini": GeminiCli.tested_version,
        "opencode": OpenCode.tested_version,
    }
    for name, version in tested.items():
        (programs / name).write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert desk.cortext("init", "--ai", ",".join(tested)).code == 0
    trusted = desk.home / ".gemini" / "trustedFolders.json"

    def report(*, fine: bool = False) -> str:
        done = desk.cortext("doctor")
        assert done.code == 0, done.err
        assert ("warning" not in done.out) is fine, done.out
        return " ".join(done.out.split())

    def write(path: Path, value: object) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")

    assert "Gemini CLI does not run our hooks: this folder is not trusted yet" in report()
    write(trusted, {str(desk.workspace): "DO_NOT_TRUST", str(desk.workspace.parent): "TRUST_FOLDER"})
    assert "set not to trust this folder" in report()
    write(trusted, {str(desk.workspace.parent): "TRUST_FOLDER"})
    report(fine=True)
    settings = desk.home / ".gemini" / "settings.json"
    write(settings, {"hooksConfig": {"enabled": False, "disabled": ["other"]}})
    assert "`hooksConfig.enabled` is false" in report()
    write(settings, {"hooksConfig": {"disabled": ["cortext"]}})
    assert "/hooks enable cortext" in report()
    write(settings, {})

    off = desk.home / ".claude" / "settings.json"
    write(off, {"disableAllHooks": True})
    assert f"Claude Code does not run our hooks: `disableAllHooks` is true in {off}" in report()
    local = desk.workspace / ".claude" / "settings.local.json"
    write(local, {"disableAllHooks": False})
    report(fine=True)

    (plugin,) = (desk.workspace / ".opencode").glob("plugin*/*.js")
    plugin.unlink()
    assert f"are missing, and with them their commands or hooks: {plugin.relative_to(desk.workspace)}" in report()
    assert desk.cortext("upgrade").code == 0
    report(fine=True)


def _trust_codex(machine: Machine) -> None:
    """Write what Codex records when its user trusts the hooks of a project."""
    hooks = machine.workspace / ".codex" / "hooks.json"
    events = json.loads(hooks.read_text(encoding="utf-8"))["hooks"]
    lines = [f'[hooks.state."{hooks}:{event.lower()}:0:0"]\ntrusted_hash = "sha256:0"\n' for event in events]
    settings = machine.home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.req("ORDER-01", "STORE-12")
def test_tags_that_both_machines_set_merge_without_a_conflict(desk: Machine, laptop: Machine) -> None:
    talk = _begin(desk)
    talk.end()
    (session,) = [row["id"] for row in desk.cortext("list", "--here", "--json").json]
    assert desk.cortext("tag", session, "api", "draft").code == 0
    desk.assert_committed()
    desk.git("push", "-q")

    laptop.switch_to()
    git(laptop.workspace.parent, "clone", "-q", str(desk.workspace.parent.parent / "remote.git"), "notes")
    assert laptop.cortext("list", "--here", "--tag", "api", "--json").json[0]["tags"] == ["api", "draft"]
    assert laptop.cortext("tag", session, "draft", "--remove").code == 0
    assert laptop.cortext("tag", session, "laptop").code == 0
    assert laptop.cortext("note", session, "seen on the laptop").code == 0
    laptop.assert_committed()

    desk.switch_to()
    assert desk.cortext("tag", session, "desk").code == 0
    assert desk.cortext("star", session).code == 0
    assert desk.cortext("note", session, "seen at the desk").code == 0
    assert desk.cortext("archive", session).code == 0
    desk.git("push", "-q")

    laptop.switch_to()
    laptop.git("pull", "-q", "--no-rebase", "--no-edit")
    laptop.git("push", "-q")
    desk.switch_to()
    desk.git("pull", "-q", "--no-rebase", "--no-edit")
    for machine in (laptop, desk):
        machine.switch_to()
        machine.assert_committed()
        (row,) = machine.cortext("list", "--here", "--archived", "--json").json
        assert (row["tags"], row["starred"], row["archived"]) == (["api", "desk", "laptop"], True, True)
        notes = [note["text"] for note in machine.cortext("note", session, "--json").json]
        assert notes == ["seen on the laptop", "seen at the desk"]
    assert desk.metadata()["order"] == laptop.metadata()["order"]


def _clone_with_crlf(machine: Machine) -> None:
    remote = machine.home.parents[1] / "remote.git"
    run(["git", "clone", "-q", "-c", "core.autocrlf=true", str(remote), str(machine.workspace)])


@pytest.mark.req("SESS-007", "SESS-003d", "STORE-11")
def test_a_clone_with_crlf_keeps_our_line_ends(desk: Machine, laptop: Machine) -> None:
    _begin(desk).end()
    desk.git("push", "-q")
    laptop.switch_to()
    _clone_with_crlf(laptop)
    command = laptop.workspace / ".workspace" / "commands" / "brainstorm.md"
    assert b"\r\n" not in command.read_bytes()
    assert b"\r\n" not in (laptop.session() / "messages.jsonl").read_bytes()
    assert b"\r\n" not in (laptop.workspace / ".claude" / "commands" / "workspace.brainstorm.md").read_bytes()
    assert b"\r\n" not in (laptop.workspace / ".gitattributes").read_bytes()
    assert ".gitattributes" not in laptop.cortext("upgrade").out, "nothing of it differs"


@pytest.mark.req("SESS-007", "SESS-003d", "STORE-11")
def test_upgrade_mends_a_clone_that_git_gave_crlf(desk: Machine, laptop: Machine) -> None:
    (desk.workspace / ".gitattributes").write_text("# >>> cortext\n# <<< cortext\n", encoding="utf-8")
    desk.git("commit", "-qam", "as an earlier version wrote it")
    _begin(desk).end()
    desk.git("push", "-q")
    laptop.switch_to()
    _clone_with_crlf(laptop)
    assert b"\r\n" in (laptop.session() / "messages.jsonl").read_bytes()
    printed = laptop.cortext("resume", "--print", "001")
    assert printed.code == 0 and "has changed" not in printed.out + printed.err
    assert "\r" not in printed.out
    kept = laptop.cortext("uninstall", "--dry-run", "--json").json["kept"]
    assert kept == []
    done = laptop.cortext("upgrade", "--json").json
    assert done["kept"] == [] and any("conversations/" in path for path in done["written"])
    ours = [laptop.session() / name for name in ("messages.jsonl", "session.json")]
    ours += [*(laptop.workspace / ".workspace").rglob("*.md"), *(laptop.workspace / ".claude").rglob("*.md")]
    assert not [path for path in ours if b"\r\n" in path.read_bytes()]
    assert laptop.cortext("upgrade").out == "  everything is up to date\n"
    assert ".gitattributes" not in laptop.cortext("doctor").out


@pytest.mark.req("SAFE-14")
def test_a_second_delete_leaves_the_namesake_in_another_clone(desk: Machine, tmp_path: Path) -> None:
    _begin(desk).end()
    other = tmp_path / "other"
    run(["git", "clone", "-q", str(desk.workspace), str(other)])
    (row,) = cortext("list", "--here", "--json", cwd=other).json
    first = desk.cortext("delete", row["id"])
    assert first.code == 0 and "API design" in first.out and str(desk.workspace) in first.out
    for wanted in (row["id"], row["id"][:8]):
        again = desk.cortext("delete", wanted)
        assert again.code == 1 and str(other) in again.err
    assert len(cortext("list", "--here", "--json", cwd=other).json) == 1
    back = desk.cortext("restore", row["id"])
    assert back.out == f'Restored {row["id"]} ("API design") in {desk.workspace}, {row["message_count"]} messages.\n'


@pytest.mark.req("SAFE-14", "ORDER-01")
@pytest.mark.parametrize(
    "command", [["tag", "later"], ["star"], ["archive"], ["note", "a word"], ["title", "Another"]], ids=lambda it: it[0]
)
def test_a_deleted_id_does_not_change_the_namesake_in_another_clone(
    command: list[str], desk: Machine, tmp_path: Path
) -> None:
    _begin(desk).end()
    other = tmp_path / "other"
    run(["git", "clone", "-q", str(desk.workspace), str(other)])
    (row,) = cortext("list", "--here", "--json", cwd=other).json
    assert desk.cortext("delete", row["id"]).code == 0
    name, *words = command
    for wanted in (row["id"], row["id"][:8]):
        refused = desk.cortext(name, wanted, *words)
        assert refused.code == 1 and str(other) in refused.err, refused
    assert cortext("list", "--here", "--json", cwd=other).json == [row]
    named = cortext(name, row["id"], *words, cwd=other)
    assert named.code == 0, named.err
    assert "API design" in named.out and str(other) in named.out, named.out


@pytest.mark.req("SAFE-10")
def test_restore_into_a_tool_writes_into_this_workspace_only(desk: Machine, tmp_path: Path) -> None:
    _begin(desk).end()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = desk.session() / "session.json"
    path.write_text(json.dumps(desk.metadata() | {"project": str(elsewhere)}), encoding="utf-8")
    desk.git("commit", "-qam", "theirs")
    for transcript in desk.home.glob(".claude/projects/*/*.jsonl"):
        transcript.unlink()
    done = desk.cortext("restore", "--into", "claude", "001", "--json")
    assert done.code == 0, done.err
    assert done.json["project"] == str(desk.workspace)
    assert not any("elsewhere" in folder.name for folder in (desk.home / ".claude" / "projects").iterdir())


@pytest.mark.req("SAFE-10", "FLOW-08")
def test_a_settings_file_that_is_no_toml_hides_nothing(desk: Machine) -> None:
    _begin(desk).end()
    (desk.workspace / ".workspace" / "config.toml").write_text("= not toml\n", encoding="utf-8")
    for command in (["list"], ["search", "GraphQL"], ["show", "001"], ["resume", "--print", "001"], ["export", "001"]):
        done = desk.cortext(*command)
        assert done.code == 0, f"{command}: {done.err}"
    listed = desk.cortext("list")
    assert "API design" in listed.out and "is not TOML" in listed.err
    doctor = desk.cortext("doctor")
    assert doctor.code == 1 and "is not TOML" in doctor.out
    for command in (["stop", "001"], ["resume", "001"], ["upgrade"]):
        assert desk.cortext(*command).code == 7, command
    assert desk.cortext("uninstall").code == 0
    assert not (desk.workspace / ".workspace" / "commands").exists()


@pytest.mark.req("STORE-06")
def test_a_pointer_that_lfs_has_not_fetched_is_named_and_never_repaired(desk: Machine) -> None:
    _begin(desk).end()
    log = desk.session() / "messages.jsonl"
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 1234\n"
    log.write_bytes(pointer)
    doctor = desk.cortext("doctor")
    assert doctor.code == 3 and "git lfs pull" in doctor.out and "cortext repair" not in doctor.out
    for command in (
        ["repair", "001"],
        ["repair", "001", "--dry-run"],
        ["prune", "001", "--keep", "1"],
        ["stop", "001"],
    ):
        done = desk.cortext(*command)
        assert log.read_bytes() == pointer, command
        assert command[0] != "repair" or (done.code == 3 and "git lfs pull" in done.err)


@pytest.mark.req("SESS-006a", "LOOK-02")
def test_a_slow_commit_hook_is_named_while_it_is_waited_for(desk: Machine, tmp_path: Path) -> None:
    _begin(desk)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hook = desk.workspace / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nread line < "{gate}"\n', encoding="utf-8")
    hook.chmod(0o755)
    command = [sys.executable, "-m", "cortext.faces.cortext.main", "stop"]
    with subprocess.Popen(
        command, cwd=desk.workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as stopping:
        assert stopping.stderr is not None and stopping.stdout is not None
        said = next(line for line in stopping.stderr if "Waiting for git" in line)  # it ends only after the gate opens
        gate.write_text("go on\n", encoding="utf-8")
        out = stopping.stdout.read()
    assert "hook" in said and "Committed as" in out
    assert stopping.returncode == 0


@pytest.mark.req("SESS-006a")
def test_a_plain_stop_finishes_what_a_lock_of_git_held_up(desk: Machine) -> None:
    _begin(desk)
    lock = desk.workspace / ".git" / "index.lock"
    lock.touch()
    held_up = desk.cortext("stop")
    assert held_up.code == 0 and "another git process" in held_up.out
    lock.unlink()
    finished = desk.cortext("stop")
    assert finished.code == 0, finished.err
    assert "API design" in finished.out and "committed now" in finished.out
    desk.assert_committed()
    assert desk.cortext("stop").code == 1
