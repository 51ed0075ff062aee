"""A project moves after a conversation was held there in a real program, and the conversation continues in it.

What the model receives must have the paths of today. A plain copy of the program's own file is the control: the program
does not find it from the new folder, or sends the old paths.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cortext.model.turns import Difference
from cortext.services.library.resolve import with_exact_id
from cortext.services.resume.receipt import Receipt
from cortext.wiring.stores import Stores
from tests.support.cli import git
from tests.support.desk import Desk
from tests.support.launching import captured_again, launched
from tests.support.model_server import Reply, Request
from tests.support.pairs import DATA, TURN_SECONDS

CONTROL_SECONDS = 60.0
ASKED = "Remember the heron: read the note."


class Place(NamedTuple):
    """A user's machine with one program, and the project's folder on it."""

    desk: Desk
    project: Path


def make_project(desk: Desk) -> Path:
    """Create a repository with a note."""
    folder = desk.project("pond")
    (folder / "note.txt").write_text("the heron stands still\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a note")
    return folder


def hold_about_a_note(desk: Desk, name: str, folder: Path) -> str:
    """Hold a conversation with the path of a file in the texts and in a call, and import it; return its id there."""
    tool, note = desk.tools[name], folder / "note.txt"
    call = tool.shell(f"cat {note}")
    desk.server.push(Reply(text=f"Let me open {note}.", tool_calls=call.tool_calls), f"{note} says it stands still.")
    done = tool.run(ASKED, cwd=folder, timeout=TURN_SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    key = tool.sessions()[-1]
    typed_on_a_screen(desk, name, key)
    assert desk.cortext("import", "--from", name, cwd=folder).code == 0
    return key


def typed_on_a_screen(desk: Desk, name: str, key: str) -> None:
    """Let a conversation look as if it had been typed on a screen: the lists of two programs show only those."""
    if name not in ("claude", "codex"):
        return
    path = desk.tools[name].files_of(key)
    text = path.read_text("utf-8").replace('"entrypoint":"sdk-cli"', '"entrypoint":"cli"')
    path.write_text(text.replace('"source":"exec"', '"source":"cli"'), encoding="utf-8")
    if name == "codex":
        with sqlite3.connect(desk.home / ".codex" / "state_5.sqlite") as database:
            database.execute("UPDATE threads SET source = 'cli'")
        database.close()


def sent(request: Request) -> str:
    """Return the conversation in a request: texts, calls and results, without what the program adds about itself."""
    start = next(index for index, turn in enumerate(request.conversation) if ASKED in turn.text)
    return "\n".join(f"{turn.text} {turn.arguments or ''}" for turn in request.conversation[start:])


# ── the moves ────────────────────────────────────────────────────────────────────────────────────────


def renamed(place: Place) -> Place:
    return Place(place.desk, place.project.rename(place.project.with_name("lake")))


def moved(place: Place) -> Place:
    target = place.project.parent / "code" / "birds"
    target.mkdir(parents=True)
    return Place(place.desk, place.project.rename(target / place.project.name))


def cloned(place: Place) -> Place:
    """The first folder is deleted after that."""
    git(place.project.parent, "clone", "-q", str(place.project), "clone")
    shutil.rmtree(place.project)
    return Place(place.desk, place.project.with_name("clone"))


def worktree(place: Place) -> Place:
    """The first folder stays."""
    git(place.project, "worktree", "add", "-q", str(place.project.with_name("tree")))
    return Place(place.desk, place.project.with_name("tree"))


def another_user(place: Place) -> Place:
    """The user's folder with the home and the project gets another name."""
    old = place.desk.home.parent
    new = old.rename(old.with_name("ann"))
    shutil.rmtree(new / "bin")
    return Place(Desk(new, place.desk.server, place.desk.tools), new / place.project.name)


def another_machine(place: Place) -> Place:
    """A clone in another home: what cortext has kept is copied there, the program's own files are not."""
    old = place.desk.home.parent
    desk = Desk(old.with_name("laptop"), place.desk.server, place.desk.tools)
    folder = desk.home.parent / "src" / "pond"
    folder.parent.mkdir()
    git(folder.parent, "clone", "-q", str(place.project), str(folder))
    shutil.copytree(place.desk.home / DATA, desk.home / DATA, dirs_exist_ok=True)
    old.rename(old.with_name("the first machine"))
    return Place(desk, folder)


MOVES: dict[str, Callable[[Place], Place]] = {
    "renamed": renamed,
    "moved": moved,
    "cloned": cloned,
    "worktree": worktree,
    "another user": another_user,
    "another machine": another_machine,
}


# ── what must hold after one ─────────────────────────────────────────────────────────────────────────


class AfterMove(NamedTuple):
    """How a conversation continued after a move, and what the control sent; `paths` is how many were mapped."""

    problems: list[str]
    paths: int = 0
    control: str = ""


def after_move(move: Callable[[Place], Place], before: Place, key: str) -> AfterMove:
    """Move a project, continue its conversation there, and run the control."""
    [name] = before.desk.tools
    plain = copied_plainly(before, key)
    now = move(before)
    now.desk.tools[name].trust(now.project)
    rows = now.desk.cortext("list", "--project", "--json", cwd=now.project).json
    if len(rows) != 1:
        return AfterMove([f"list --project has {len(rows)} conversations"])
    words = ("resume", rows[0]["id"], "--ai", name, "--dry-run", "--json")
    planned = now.desk.cortext(*words, cwd=now.project).json["cwd"]
    problems = [] if planned == str(now.project) else [f"cortext resume would continue in {planned}"]
    with now.desk.environment():
        stores = Stores(str(now.project))
        found = with_exact_id(stores.all(), rows[0]["id"])[0]
        result = launched(now.desk, stores, found, name, now.project)
        plan = result.plan
        problems += [*result.problems, *captured_again(now.desk, found, name)]
    problems += _other_paths(result.request, plan.receipt, before.project, now.project)
    did, wrong = control(now, before.project, key, plan.key, plain)
    return AfterMove([*problems, *wrong], plan.receipt.changed.get(Difference.PATH, 0), did)


def copied_plainly(place: Place, key: str) -> Path:
    """Copy a conversation's file or folder to a place outside of the user's folder; return the copy."""
    [tool] = place.desk.tools.values()
    source = tool.files_of(key)
    plain = place.desk.home.parents[1] / "plain" / source.name
    plain.parent.mkdir()
    return Path((shutil.copytree if source.is_dir() else shutil.copy)(source, plain))


def _other_paths(request: Request, receipt: Receipt, old: Path, now: Path) -> list[str]:
    """Return what is wrong with the paths in a request, and with what the receipt says about them."""
    words, note = sent(request), f"{now}/note.txt"
    problems = [f"not received: {text}" for text in (f"Let me open {note}.", f"cat {note}") if text not in words]
    problems += [f"received: {old}/note.txt"] if f"{old}/note.txt" in words else []
    problems += [] if receipt.moved == {str(old): str(now)} else [f"the receipt has {receipt.moved}"]
    arrived, mapped = words.count(note), receipt.changed.get(Difference.PATH, 0)
    return problems + ([] if arrived == mapped else [f"{arrived} paths were received, {mapped} are in the receipt"])


def control(now: Place, old: Path, key: str, written: str, plain: Path) -> tuple[str, list[str]]:
    """Let the program resume a plain copy of its own session; return what it sent, and whether that was right.

    The copy is put next to the session that we wrote; with its database, OpenCode has the session or does not.
    """
    [tool] = now.desk.tools.values()
    target = tool.files_of(written).parent / plain.name
    if not target.exists():
        (shutil.copytree if plain.is_dir() else shutil.copy)(plain, target)
    now.desk.server.forget()
    if key in tool.sessions():
        with suppress(subprocess.TimeoutExpired):  # in a worktree, OpenCode asks the model and then does not end
            tool.run("Go on.", cwd=now.project, resume=key, timeout=CONTROL_SECONDS)
    requests = [sent(request) for request in now.desk.server.turns if ASKED in str(request.body)]
    problems = ["the control has the new paths"] if any(f"{now.project}/note.txt" in text for text in requests) else []
    if not all(f"{old}/note.txt" in text for text in requests):
        problems.append("the control does not have the old paths")
    return "old paths" if requests else "not found", problems
