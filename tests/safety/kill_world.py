"""A small world to kill commands in: a home with Claude Code transcripts, a git workspace, and agents' sessions."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cortext.model.message import Message
from cortext.store.files.assistant import FileChats
from cortext.store.files.chat import ChatStore
from cortext.store.files.journal import JournalReading
from cortext.store.files.layout_paths import SESSION
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from tests.safety import supervise
from tests.tools.claude_code.corpus import Script

QUESTION = "How many herons are there?"
BOATS, HERONS = "001-brainstorm-boats", "002-plan-herons"
TRASH = "trash:"  # prefix of the id of a session in the trash


Stamp = tuple[int, ...]


def stamp(status: os.stat_result) -> Stamp:
    """Return a value that changes with every change of a file; for a folder only with its mode."""
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def stamps(top: Path) -> dict[str, Stamp]:
    """Return the stamps of everything below this folder."""
    found, folders = {}, [(str(top), "")]
    while folders:
        folder, prefix = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                found[prefix + entry.name] = stamp(entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, f"{prefix}{entry.name}/"))
    return found


class Case(NamedTuple):
    """A command that writes. `fine`: exit codes of a second run if the first had already done its work."""

    name: str
    words: tuple[str, ...]
    program: str = "cortext"
    stdin: str = ""
    before: tuple[tuple[str, ...], ...] = ()  # commands that run first
    fine: tuple[int, ...] = (0,)
    empty: int = 0  # how many conversations without messages it may leave when killed and run again
    begins: bool = False  # whether every run begins another session
    whole_sessions: bool = False  # whether a session that it creates has all its messages from the beginning
    moved_to: str = ""  # where the session that it moves is in the end (see World.messages)
    share: float = 1.0  # relative number of kills: less for what costs more
    whole: bool = False  # whether every file of the workspace is either as before or as after


class World:
    """The world on disk, and how a command runs in it."""

    def __init__(self, top: Path, model: str) -> None:
        self.top, self.model = top, model
        self.root = top / "world"
        self.home, self.work = self.root / "home", self.root / "work"
        self.claude = self.home / ".claude" / "projects" / "-work"
        self.said = top / "said"
        self._kept: tuple[str, dict[str, Stamp]] = "", {}

    def command(self, case: Case) -> Callable[[], None]:
        """Return the work of the fork that is killed: the same entry point that a user's shell starts."""
        return lambda: self._run(case.program, case.words, case.stdin)

    def _run(self, program: str, words: tuple[str, ...], stdin: str) -> None:
        scripts = os.path.dirname(sys.executable)
        os.environ.clear()
        os.environ.update(
            HOME=str(self.home), PATH=f"{scripts}:/usr/local/bin:/usr/bin:/bin", LANG="C.UTF-8",
            GIT_CONFIG_NOSYSTEM="1", OLLAMA_HOST=self.model, CORTEXT_MODEL="ollama/test", NO_PROXY="127.0.0.1",
            **{f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        )  # fmt: skip
        os.chdir(self.work)
        reading, writing = os.pipe()
        os.write(writing, stdin.encode())
        os.close(writing)
        os.dup2(reading, 0)
        output = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdin, sys.stdout, sys.stderr = (open(number, "rw"[number > 0]) for number in range(3))  # noqa: SIM115
        sys.argv = [program, *words]
        if program == "git":
            os.execvp("git", sys.argv)
        room = "faces" if program == "cortext" else "agents"
        __import__(f"cortext.{room}.{program}.main", fromlist=["main"]).main()

    def do(self, *words: str, program: str = "cortext", stdin: str = "", codes: tuple[int, ...] = (0,)) -> str:
        """Run a command without killing it; return its output."""
        ended = supervise.run(lambda: self._run(program, words, stdin))
        said = self.said.read_text(errors="replace")
        assert "Traceback" not in said, said
        assert ended.status in codes, f"{program} {' '.join(words)} ended with {ended.status}: {said}"
        return said

    def build(self) -> None:
        """Create the world before anything is killed in it."""
        for folder in (self.home, self.work, self.claude):
            folder.mkdir(parents=True)
        self.do("init", "-q", "--template=", program="git")
        self.do("init", "--ai", "claude")
        self.do("new", "brainstorm", "Boats")
        self.do("new", "plan", "Herons")
        store = WorkspaceStore(str(self.work))
        for name in (BOATS, HERONS):
            store.append(name, *(Message(role=("user", "assistant")[n % 2], content=f"{name} {n}") for n in range(12)))
        self.do("stop", BOATS)
        for number in range(3):
            script = Script(key=f"0000000{number}-1111-4111-8111-111111111111")
            script.user(f"question {number} about the pond")
            script.assistant(f"answer {number}")
            script.save(self.claude)
        self.do("import")
        for number in (1, 3):
            script = Script(key=f"0000000{number}-1111-4111-8111-111111111111")
            for turn in range(number):
                script.user(f"question {number} about the pond" if turn == 0 else f"more {turn}")
                script.assistant(f"answer {number}" if turn == 0 else f"that is {turn}")
            script.user("and one more")
            script.assistant("that is all")
            script.save(self.claude)
        self.do("spawn", "Begin.", program="aur")
        self.do("Begin.", program="alfred")
        self.do("search", "herons")
        self.do("add", ".", program="git")
        self.do("commit", "-qm", "all", program="git")

    def keep(self, name: str) -> None:
        """Save the world under this name."""
        shutil.rmtree(self.top / name, ignore_errors=True)
        shutil.copytree(self.root, self.top / name, symlinks=True)
        self._kept = name, stamps(self.root)

    def restore(self, name: str) -> None:
        """Restore a saved world, copying only what has changed since it was saved or restored."""
        kept, before = self._kept
        if name != kept:
            shutil.rmtree(self.root)
            shutil.copytree(self.top / name, self.root, symlinks=True)
            self._kept = name, stamps(self.root)
            return
        now = stamps(self.root)
        for path in sorted(now.keys() - before.keys(), reverse=True):  # the content of a folder before the folder
            extra = self.root / path
            extra.rmdir() if extra.is_dir() and not extra.is_symlink() else extra.unlink()
        for path in sorted(path for path in before if now.get(path) != before[path]):
            source, target = self.top / kept / path, self.root / path
            if source.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.unlink(missing_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
            before[path] = stamp(target.lstat())

    def stores(self) -> list[FileStore]:
        """Return all of its stores."""
        home = WorkspaceStore(str(self.home / ".local" / "share" / "cortext" / "home"))
        return [WorkspaceStore(str(self.work)), home, self.spawned(), self.chats()]

    def spawned(self) -> SpawnStore:
        """Return the store of aur."""
        return SpawnStore(str(self.home / ".aurora" / "spawn" / "sessions"))

    def chats(self) -> ChatStore:
        """Return the store of alfred."""
        return ChatStore(str(self.home / ".local" / "share" / "alfred" / "sessions"))

    def current_chat(self) -> str | None:
        """The session that is active on alfred's command line."""
        sessions = self.home / ".local" / "share" / "alfred" / "sessions"
        return FileChats(str(sessions), "cli", str(sessions / "current.json")).active("cli")

    def messages(self) -> dict[str, list[str]]:
        """Return the message ids of every session. A session in the trash is named `trash:` and its id."""
        found: dict[str, list[str]] = {}
        for store in self.stores():
            for session in store.sessions():
                found[session.id] = [message.id for message in store.read(session.id)]
            for item in store.trash():
                name = TRASH + item.session_id
                assert item.session_id not in found and name not in found, f"{item.session_id} is there twice"
                whole = Path(store.control, "trash", item.key, os.path.basename(item.origin))
                log = whole / SESSION / "messages.jsonl" if whole.is_dir() else whole
                found[name] = [message.id for message in JournalReading(str(log))]
        return found

    def files(self) -> dict[str, bytes]:
        """Return what git would see of the workspace."""
        found = {}
        for folder, folders, names in os.walk(self.work):
            folders[:] = [
                name
                for name in folders
                if name != ".git" and os.path.join(folder, name) != str(self.work / ".workspace" / "state")
            ]
            for name in names:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.work)] = Path(path).read_bytes()
        return found

    def leftovers(self) -> list[str]:
        """Return files that only a running writer may have."""
        found = []
        for folder, folders, names in os.walk(self.root):
            if os.path.basename(folder) == ".git":
                folders.remove("objects")
            if os.path.basename(folder) == "incoming":
                found += [os.path.join(folder, name) for name in (*folders, *names)]
            for name in names:
                inside_git = f"{os.sep}.git{os.sep}" in f"{folder}{os.sep}"
                if name.endswith(".tmp") or (inside_git and name.endswith(".lock")):
                    found.append(os.path.join(folder, name))
        return [os.path.relpath(path, self.root) for path in found]

    def broken(self) -> list[str]:
        """Return files that do not parse. A log may end with a partial line until the next append."""
        found = []
        for folder, folders, names in os.walk(self.root):
            # `incoming`: sessions under construction, not visible to readers
            folders[:] = [name for name in folders if name not in ("incoming", ".git")]
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".json") and not name.startswith("."):
                    lines = [Path(path).read_bytes()]
                elif name.endswith(".jsonl"):
                    lines = Path(path).read_bytes().split(b"\n")[:-1]
                else:
                    continue
                for line in lines:
                    try:
                        json.loads(line)
                    except ValueError:
                        found.append(os.path.relpath(path, self.root))
        return found
