"""`cortext why` and `cortext touched`, from an imported transcript and a real git repository to the answer."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.model import clock
from tests.faces.pond import Pond, served
from tests.support.cli import Ran, cortext, run

NOON = 1_790_000_000  # seconds: when the conversations of these tests begin
BODY = """def heron_budget(pond):
    herons = count_herons(pond)
    if not herons:
        return None
    return fish_per_heron(pond) * herons
"""
RETRY = "    retries = patient_retries(pond, three_times=True)\n"


class Agent:
    """A Claude Code conversation, written as its transcript."""

    def __init__(self, project: Path, key: str = "11111111-1111-4111-8111-111111111111", start: int = NOON) -> None:
        self.project, self.key, self.time = project, key, start
        self._lines: list[dict[str, Any]] = []

    def user(self, text: str) -> Agent:
        """Say something."""
        return self._add("user", text)

    def said(self, text: str) -> Agent:
        """Have the model say something."""
        return self._add("assistant", [{"type": "text", "text": text}])

    def call(self, name: str, *, failed: bool = False, **given: Any) -> Agent:
        """Have the model call a tool, and return a result."""
        number = f"toolu_{len(self._lines)}"
        self._add("assistant", [{"type": "tool_use", "id": number, "name": name, "input": given}])
        result = {"type": "tool_result", "tool_use_id": number, "content": "done", "is_error": failed}
        return self._add("user", [result])

    def write(self, path: str, text: str, *, failed: bool = False) -> Agent:
        """Have the model write a file; unless it fails, the file is really written."""
        target = self.project / path
        if not failed:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return self.call("Write", failed=failed, file_path=str(target), content=text)

    def edit(self, path: str, old: str, new: str) -> Agent:
        """Have the model replace a text in a file."""
        target = self.project / path
        target.write_text(target.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        return self.call("Edit", file_path=str(target), old_string=old, new_string=new)

    def save(self) -> Agent:
        """Write the transcript where Claude Code keeps it."""
        folder = Path(os.environ["HOME"]) / ".claude" / "projects" / "-somewhere"
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in self._lines)
        (folder / f"{self.key}.jsonl").write_text(text, encoding="utf-8")
        return self

    def _add(self, role: str, content: Any) -> Agent:
        number = len(self._lines)
        self.time += 10
        message = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "type": "message", "model": "m", "stop_reason": None, "usage": {}}
        self._lines.append(
            {
                "type": role,
                "uuid": f"{self.key[:8]}-0000-4000-8000-{number:012}",
                "parentUuid": f"{self.key[:8]}-0000-4000-8000-{number - 1:012}" if number else None,
                "sessionId": self.key,
                "cwd": str(self.project),
                "timestamp": clock.from_epoch(self.time),
                "isSidechain": False,
                "userType": "external",
                "version": "2.1.0",
                "message": message,
            }
        )
        return self


Commit = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create an empty repository."""
    folder = tmp_path / "pond"
    folder.mkdir()
    assert run(["git", "init", "-q", "-b", "main", str(folder)]).code == 0
    return folder


def commit(project: Path, when: int, message: str = "Change", author: str = "A Person") -> str:
    """Commit everything at this time; return the hash."""
    env = {"GIT_AUTHOR_DATE": f"{when} +0000", "GIT_COMMITTER_DATE": f"{when} +0000"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": author, f"GIT_{role}_EMAIL": "someone@example.com"}
    assert run(["git", "add", "-A"], cwd=project).code == 0
    done = run(["git", "commit", "-q", "-m", message], cwd=project, env=env)
    assert done.code == 0, done.err
    return run(["git", "rev-parse", "HEAD"], cwd=project).out.strip()


def why(project: Path, *words: str) -> Ran:
    """Import what is new and ask."""
    assert cortext("sync", cwd=project).code == 0
    return cortext("why", *words, "--json", cwd=project)


def heron(project: Path) -> Agent:
    """Have an agent write a file, as it was asked to."""
    agent = Agent(project).user("The herons starve: compute a fish budget per heron, please.")
    agent.said("We decided to compute the budget per heron. I write it now.")
    return agent.write("src/heron.py", BODY)


@pytest.mark.req("FIND-07")
def test_why_names_the_ask_the_decision_and_how_to_resume(project: Path) -> None:
    agent = heron(project).save()
    sha = commit(project, agent.time + 600, "Herons")
    found = why(project, "src/heron.py:5")
    assert found.code == 0, found.err
    answer = found.json
    session = answer["session"]["id"]
    assert agent.key in session and answer["resume"] == f"cortext resume {session}"
    assert answer["confidence"] == "high" and answer["commit"]["sha"] == sha
    assert answer["turn"]["ask"].startswith("The herons starve") and answer["turn"]["ask_seq"] == 0
    assert "We decided to compute the budget per heron" in answer["turn"]["decision"]
    assert answer["turn"]["call"] == "Write"
    for words in (("src/heron.py:5",), ("src/heron.py",), ("--commit", "HEAD")):
        said = cortext("why", *words, cwd=project)
        assert said.code == 0 and session in said.out and "asked #0: The herons starve" in said.out, words
        assert f"cortext resume {session}" in said.err
    from_below = cortext("why", "heron.py:5:1", "--json", cwd=project / "src")
    assert from_below.json["session"]["id"] == session
    assert cortext("resume", session, "--dry-run", "--ai", "claude", cwd=project).code == 0


@pytest.mark.req("FIND-07")
def test_a_common_line_counts_only_with_its_neighbours(project: Path) -> None:
    agent = heron(project).save()
    commit(project, agent.time + 600)
    assert why(project, "src/heron.py:4").json["confidence"] == "high", "`return None`, in the agent's block"
    with (project / "src/heron.py").open("a", encoding="utf-8") as file:
        file.write("\ndef other():\n        return None\n")
    commit(project, agent.time + 9_000)
    alone = why(project, "src/heron.py:8")
    assert alone.code == 1 and alone.json["session"] is None, "the same line in a person's commit"


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize("author", ["A Person", "renovate[bot]"])
def test_a_commit_of_someone_else_at_the_same_time_is_not_attributed(project: Path, author: str) -> None:
    agent = heron(project)
    commit(project, agent.time + 1)
    (project / "src/heron.py").write_text(BODY + RETRY, encoding="utf-8")
    (project / "src/egret.py").write_text(BODY.replace("heron", "egret"), encoding="utf-8")
    commit(project, agent.time + 2, author=author)  # the conversation goes on, in the same file
    agent.call("Read", file_path=str(project / "src/heron.py")).user(f"I added {RETRY}").said(f"I see {RETRY}").save()
    for words in (("src/heron.py:6",), ("src/egret.py:2",), ("src/egret.py",), ("--commit", "HEAD")):
        found = why(project, *words)
        assert found.code == 1 and not found.json.get("session") and not found.json.get("origins"), words
    said = cortext("why", "src/heron.py:6", cwd=project)
    assert said.code == 1 and "Not by an agent, as far as is known: no stored conversation" in said.out


@pytest.mark.req("FIND-07")
def test_a_line_that_a_person_types_again_is_the_persons(project: Path) -> None:
    agent = heron(project)
    agent.edit("src/heron.py", "    return fish", f"{RETRY}    return fish").save()
    commit(project, agent.time + 60)
    assert why(project, "src/heron.py:5").code == 0
    text = (project / "src/heron.py").read_text(encoding="utf-8")
    (project / "src/heron.py").write_text(text.replace(RETRY, ""), encoding="utf-8")
    commit(project, agent.time + 120)
    (project / "src/heron.py").write_text(text, encoding="utf-8")
    commit(project, agent.time + 180)
    found = why(project, "src/heron.py:5")
    assert found.code == 1 and "an earlier commit accounts for that" in found.json["why_not"]


@pytest.mark.req("FIND-07")
def test_what_failed_or_came_later_or_was_taken_back_does_not_count(project: Path) -> None:
    first = Agent(project).user("Try it.").write("src/heron.py", BODY, failed=True).save()
    second = Agent(project, "22222222-2222-4222-8222-222222222222").user("Try that.")
    second.write("src/egret.py", BODY).write("src/egret.py", "nothing = 1\n").save()
    (project / "src/heron.py").write_text(BODY, encoding="utf-8")
    (project / "src/egret.py").write_text(BODY, encoding="utf-8")
    (project / "src/coot.py").write_text(BODY, encoding="utf-8")
    commit(project, second.time + 60)
    Agent(project, "33333333-3333-4333-8333-333333333333", start=second.time + 9_000).user("Again.").write(
        "src/coot.py", BODY
    ).save()
    assert first.key and why(project, "src/heron.py:2").code == 1, "it failed"
    assert why(project, "src/egret.py:2").code == 1, "it was taken back"
    assert why(project, "src/coot.py:2").code == 1, "it came after the commit"


@pytest.mark.req("FIND-07")
def test_a_file_is_followed_through_renames_formatters_and_moves(project: Path, tmp_path: Path) -> None:
    agent = heron(project).save()
    commit(project, agent.time + 60)
    (project / "lib").mkdir()
    (project / "src/heron.py").rename(project / "lib/birds.py")
    commit(project, agent.time + 120)
    formatted = BODY.replace("    ", "\t").replace("pond)", "pond )")
    (project / "lib/birds.py").write_text(formatted, encoding="utf-8")
    commit(project, agent.time + 180)
    assert cortext("sync", cwd=project).code == 0  # while the project is still there
    moved = tmp_path / "elsewhere" / "lake"
    shutil.copytree(project, moved)
    shutil.rmtree(project)
    answer = why(moved, "lib/birds.py:5").json
    assert agent.key in answer["session"]["id"] and answer["confidence"] == "high"
    assert [row["session"]["id"] for row in cortext("touched", "lib/birds.py", "--json", cwd=moved).json] == [
        answer["session"]["id"]
    ]


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize(("kept", "confidence"), [(3, None), (5, "medium"), (9, "high")])
def test_a_file_that_was_moved_before_its_commit_needs_several_lines(
    project: Path, kept: int, confidence: str | None
) -> None:
    whole = BODY + "".join(
        f"HERON_POND_{name} = 'shallow water {name}'\n" for name in ("NORTH", "SOUTH", "EAST", "WEST")
    )
    agent = Agent(project).user("A budget, please.").write("src/heron.py", whole).save()
    (project / "lib").mkdir()
    (project / "src/heron.py").rename(project / "lib/heron.py")
    text = "".join(whole.splitlines(keepends=True)[:kept])
    (project / "lib/heron.py").write_text(text, encoding="utf-8")
    commit(project, agent.time + 60)
    found = why(project, "lib/heron.py:2").json
    assert found["confidence"] == confidence
    assert (found["session"] is None) == (confidence is None)


@pytest.mark.req("FIND-07")
def test_a_line_that_was_committed_elsewhere_before_is_not_moved(project: Path) -> None:
    agent = heron(project).save()
    commit(project, agent.time + 60)
    (project / "lib").mkdir()
    (project / "lib/heron.py").write_text(BODY, encoding="utf-8")  # a person's copy
    commit(project, agent.time + 120)
    assert why(project, "lib/heron.py:2").code == 1


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize(("lines", "code"), [(1, 1), (3, 0)])
def test_what_was_edited_before_a_late_rebase_needs_several_lines(project: Path, lines: int, code: int) -> None:
    agent = Agent(project).user("A budget, please.").write("src/heron.py", BODY)
    commit(project, agent.time + 60)
    agent.time += 86_400
    new = "".join(f"    retries = patient_retries(pond, times={number})\n" for number in range(lines))
    agent.edit("src/heron.py", "    return fish", f"{new}    return fish").save()
    late = {"GIT_COMMITTER_DATE": f"{agent.time + 86_400} +0000"}
    for role in ("AUTHOR", "COMMITTER"):
        late |= {f"GIT_{role}_NAME": "A Person", f"GIT_{role}_EMAIL": "someone@example.com"}
    assert run(["git", "commit", "-q", "-a", "--amend", "--no-edit"], cwd=project, env=late).code == 0
    assert why(project, "src/heron.py:5").code == code


@pytest.mark.req("FIND-07")
def test_a_file_that_its_commit_renamed_is_known_by_both_names(project: Path) -> None:
    (project / "src").mkdir()
    lasting = "".join(f"# The marsh at gate {number} stays flooded\n" for number in range(30))
    (project / "src/heron.py").write_text(lasting, encoding="utf-8")
    commit(project, NOON - 60)
    agent = Agent(project).user("A budget, please.").edit("src/heron.py", lasting, lasting + BODY).save()
    (project / "src/heron.py").rename(project / "src/birds.py")
    commit(project, agent.time + 60)
    found = why(project, "--commit", "HEAD").json
    assert [one["confidence"] for one in found["origins"]] == ["high"] and found["lines"] == 3


@pytest.mark.req("FIND-07")
def test_a_line_that_is_not_committed_yet_has_an_origin(project: Path) -> None:
    heron(project).save()
    answer = why(project, "src/heron.py:2").json
    assert answer["commit"] is None and answer["confidence"] == "high"


@pytest.mark.req("FIND-07")
def test_another_projects_file_of_the_same_name_is_not_attributed(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "lake"
    other.mkdir()
    assert run(["git", "init", "-q", "-b", "main", str(other)]).code == 0
    (other / "README.md").write_text("The lake\n", encoding="utf-8")
    commit(other, NOON - 100)
    (project / "README.md").write_text("The pond\n", encoding="utf-8")
    commit(project, NOON - 100, "Another beginning")
    agent = heron(other).save()
    commit(other, agent.time + 60)
    (project / "src").mkdir()
    (project / "src/heron.py").write_text(BODY, encoding="utf-8")
    commit(project, agent.time + 60)
    assert why(other, "src/heron.py:2").code == 0
    assert why(project, "src/heron.py:2").code == 1


@pytest.mark.req("FIND-07")
def test_touched_tells_reading_from_changing(project: Path) -> None:
    agent = heron(project)
    agent.call("Bash", command="cat > src/notes.md <<'EOF'\nwading birds eat at dawn\nEOF").save()
    reader = Agent(project, "22222222-2222-4222-8222-222222222222", start=agent.time + 500).user("Look at it.")
    reader.call("Read", file_path=str(project / "src/heron.py")).save()
    commit(project, agent.time + 60)
    assert cortext("sync", cwd=project).code == 0
    rows = cortext("touched", "src/heron.py", "--json", cwd=project).json
    assert [(row["changed"], row["read"]) for row in rows] == [(0, 1), (1, 0)], "the latest first"
    assert reader.key in rows[0]["session"]["id"] and all(row["sure"] for row in rows)
    changed = cortext("touched", "src/heron.py", "--changed", cwd=project)
    assert agent.key in changed.out and reader.key not in changed.out and "changed it once" in changed.out
    [notes] = cortext("touched", "src/notes.md", "--json", cwd=project).json
    assert notes["changed"] == 1, "written by a here-document"
    none = cortext("touched", "src/coot.py", cwd=project)
    assert none.code == 1 and "No stored conversation touched it." in none.out


@pytest.mark.req("FIND-07")
def test_what_cannot_be_answered_says_what_to_do(project: Path, tmp_path: Path) -> None:
    agent = heron(project).save()
    commit(project, agent.time + 60)
    for words, code, said in (
        ((), 2, "name either a file or a commit"),
        (("src/heron.py", "--commit", "HEAD"), 2, "name either a file or a commit"),
        (("src/heron.py:99",), 2, "it has 5 lines"),
        (("src/heron.py:0",), 2, "lines are counted from 1"),
        (("src/nothing.py:1",), 1, "does not exist"),
        (("--commit", "nonsense"), 1, "no commit is named 'nonsense'"),
    ):
        done = cortext("why", *words, cwd=project)
        assert done.code == code and said in done.err, (words, done.err)
    outside = cortext("why", "x.py:1", cwd=tmp_path)
    assert outside.code == 1 and "is in no git repository" in outside.err
    run(["git", "checkout", "-q", "-b", "side"], cwd=project)
    (project / "b.txt").write_text("b\n", encoding="utf-8")
    commit(project, agent.time + 70)
    run(["git", "checkout", "-q", "main"], cwd=project)
    run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "merge", "-q", "--no-ff", "side"], cwd=project)
    merge = cortext("why", "--commit", "HEAD", cwd=project)
    assert merge.code == 2 and "is a merge" in merge.err and "git log" in merge.err


@pytest.mark.req("FIND-07")
@pytest.mark.parametrize(
    ("lines", "typed", "confidence"),
    [(2, 30, []), (5, 30, []), (6, 30, ["medium"]), (2, 8, ["medium"]), (20, 180, ["medium"]), (20, 20, ["high"])],
)
def test_a_few_lines_of_a_large_commit_do_not_name_a_conversation(
    project: Path, lines: int, typed: int, confidence: list[str]
) -> None:
    agent = Agent(project).user("Describe the birds.")
    agent.write("birds.txt", "".join(f"The heron of pool {number} fishes alone\n" for number in range(lines))).save()
    (project / "shore.txt").write_text(
        "".join(f"The meadow beyond gate {number} floods early\n" for number in range(typed)), encoding="utf-8"
    )
    commit(project, agent.time + 60)
    found = why(project, "--commit", "HEAD").json
    assert [one["confidence"] for one in found["origins"]] == confidence
    assert found["lines"] == lines + typed


@pytest.mark.req("FIND-07")
def test_an_agent_can_ask_about_lines_of_its_own_project(project: Path, home: Path, tmp_path: Path) -> None:
    agent = heron(project).save()
    secret = "sk-ant-" + "api03-" + "A7d9Kq2mZx" * 9 + "AA"
    agent.user(f"The key is {secret}, never print it.").edit(
        "src/heron.py", "    return fish", f"{RETRY}    return fish"
    )
    agent.save()
    sha = commit(project, agent.time + 60)
    assert cortext("sync", cwd=project).code == 0
    (tmp_path / "outside.py").write_text(BODY, encoding="utf-8")
    with served(Pond(home, project)) as client:
        line = client("why_line", file="src/heron.py", line=2)
        [origin] = line.data["origins"]
        assert agent.key in origin["session"]["id"] and origin["confidence"] == "high"
        assert "the user asked: The herons starve" in line.text and line.data["commit"]["sha"] == sha
        masked = client("why_line", file="src/heron.py", line=5)
        assert secret not in masked.text + json.dumps(masked.data) and "[masked" in masked.text
        assert (
            client("why_line", commit="HEAD").data["origins"]
            and client("why_line", file="src/heron.py").data["origins"]
        )
        touch = client("touched_file", file="src/heron.py")
        assert touch.data["results"][0]["changed"] == 2 and "changed it 2 times" in touch.text
        assert "0 times" not in touch.text
        for given in ({}, {"file": "a", "commit": "b"}, {"file": "../outside.py", "line": 1}, {"file": "/etc/passwd"}):
            assert client("why_line", **given).failed, given
        assert client("touched_file", file="../outside.py").failed
