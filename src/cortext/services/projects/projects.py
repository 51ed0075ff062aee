"""The repositories of the folders in which conversations were held, as far as this machine has seen them.

A file in the data folder keeps what git answered, so that it is asked once for each project, and what was known of a
folder that is gone. It also says where else on this machine the same project is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable
from cortext.model.session import Session
from cortext.services.projects.git import Git
from cortext.services.projects.repository import (
    MOST,
    Repository,
    is_below,
    normalised_remotes,
    repository_of,
    top_of,
)
from cortext.services.projects.workspaces import is_text

PROJECT, REPOSITORY, HELD_IN = "project", "repository", "held_in"  # keys of `Session.extra`
GIT_SECONDS = 2.0  # for git to find the first commits
MOST_FOLDERS = 8  # further folders that are recorded with a session
_SPARE_LINES = 64  # outdated lines of the file that are not worth a rewrite


class _WorkTree(msgspec.Struct, omit_defaults=True):
    """A work tree, and when the settings of its repository had last been changed."""

    top: str
    roots: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()
    config: str = ""
    changed: int = 0


class Projects:
    """The known work trees of this machine."""

    def __init__(self, path: str = "") -> None:
        self._path = path or os.path.join(folders.data(), "projects.jsonl")
        self._lines: dict[str, _WorkTree] | None = None
        self._checked: dict[str, Repository] = {}  # by top folder, in this process

    def repository(self, folder: str) -> Repository:
        """Return the repository that a folder is in; of a folder that is gone, what was known of it."""
        if not os.path.isabs(folder) or not is_text(folder):
            return Repository()
        if not os.path.isdir(folder):
            return self._remembered(folder)
        top = top_of(folder)
        if not top:
            return Repository()
        return _inside(self._current(top), os.path.relpath(folder, top))

    def places(self, repository: Repository) -> Iterator[tuple[str, Repository]]:
        """Yield the work trees of this repository that still exist, the one that was seen last first."""
        for line in [*self._load().values()][::-1]:
            if repository.is_same(_of(line)) and top_of(line.top) == line.top:
                current = self._current(line.top)
                if repository.is_same(current):
                    yield line.top, current

    def same(self, folder: str, known: Iterable[tuple[str, str]]) -> list[str]:
        """Return those of these folders that are about the project in a folder, wherever they are.

        Each comes with its repository as it was recorded, or an empty string. If the folder is inside a repository,
        these are the same folder in every place where the repository was, and the folders below.
        """
        wanted = self.repository(folder)
        found = []
        for project, recorded in dict.fromkeys(known):
            repository = repository_of(json.loads(recorded)) if recorded else self.repository(project)
            if is_below(project, folder) or (wanted.is_same(repository) and is_below(repository.inside, wanted.inside)):
                found.append(project)
        return found

    def _current(self, top: str) -> Repository:
        """Return the repository of a work tree, from the file unless its settings have changed since."""
        known = self._checked.get(top)
        if known is None:
            line = self._load().get(top)
            if line is None or _changed(line.config) != line.changed:
                line = self._ask(top)
            known = self._checked[top] = _of(line)
        return known

    def _ask(self, top: str) -> _WorkTree:
        found = ask_git(top)
        line = _WorkTree(top, found.roots, found.remotes)
        if found.is_known:  # else it may get its first commit at any time
            line.config = Git(top).config_file()
            line.changed = _changed(line.config)
            lines = self._load()
            lines.pop(top, None)  # the last one seen is the last in the file
            lines[top] = line
            try:
                durable.ensure_folder(os.path.dirname(self._path))
                durable.append_once(self._path, msgspec.json.encode(line) + b"\n")
            except (CortextError, OSError):
                pass  # a read-only home: it is asked again
        return line

    def _remembered(self, folder: str) -> Repository:
        above, lines = folder, self._load()
        while above not in lines:
            parent = os.path.dirname(above)
            if parent == above:
                return Repository()
            above = parent
        return _inside(_of(lines[above]), os.path.relpath(folder, above))

    def _load(self) -> dict[str, _WorkTree]:
        if self._lines is None:
            self._lines = {}
            try:
                raw = durable.read_file(self._path).splitlines()
            except (CortextError, OSError):
                return self._lines
            for text in raw:
                try:
                    line = msgspec.json.decode(text, type=_WorkTree)
                except msgspec.MsgspecError:
                    continue
                self._lines.pop(line.top, None)
                self._lines[line.top] = line
            if len(raw) > 2 * len(self._lines) + _SPARE_LINES:
                self._rewrite()
        return self._lines

    def _rewrite(self) -> None:
        """Remove outdated lines. What another process appends meanwhile is only asked again."""
        try:
            durable.replace_file(
                self._path, (msgspec.json.encode(line) + b"\n" for line in (self._lines or {}).values())
            )
        except (CortextError, OSError):
            pass

    # ── what is recorded with a session ──────────────────────────────────────────────────────────────

    def record(self, folder: str, address: str = "") -> dict[str, Any]:
        """Return what to record with a new session: its repository. `address` is a remote that the tool recorded."""
        found = self.repository(folder)
        if not found.is_known and address and not os.path.isdir(folder):
            found = Repository(remotes=normalised_remotes([address]))
        return {REPOSITORY: msgspec.json.decode(msgspec.json.encode(found))} if found.is_known else {}

    def of_session(self, session: Session) -> Repository:
        """Return the repository that a session was held in: recorded with it, or known by its folder."""
        recorded = repository_of(session.extra.get(REPOSITORY))
        return recorded if recorded.is_known else self.repository(project_of(session))

    def continued_in(self, session: Session, folder: str) -> dict[str, Any]:
        """Return what to record because a session continued in this folder: nothing unless its project has moved."""
        before = project_of(session)
        if not folder or not before or folder == before:
            return {}
        old, new = self.of_session(session), self.repository(folder)
        if not new.is_known or not old.is_same(new):
            return {}
        top = top_of(folder)
        further = [other for other in tops_of(session, old) if other != top]
        return {PROJECT: folder, **self.record(folder), HELD_IN: further[:MOST_FOLDERS]}


def ask_git(top: str) -> Repository:
    """Return the repository whose work tree is this folder."""
    git = Git(top)
    roots = sorted(git.root_commits(GIT_SECONDS))[:MOST]
    return Repository(tuple(roots), normalised_remotes(git.remote_addresses(), top))


def project_of(session: Session) -> str:
    """Return the folder that a session was held in last; empty if that is unknown."""
    project = session.extra.get(PROJECT)
    return project if isinstance(project, str) else ""


def tops_of(session: Session, repository: Repository | None = None) -> list[str]:
    """Return the top folders of the project in all places where the session was held, the last one first.

    `repository` is that of the session, if it is not the recorded one.
    """
    project = project_of(session)
    inside = (repository or repository_of(session.extra.get(REPOSITORY))).inside
    held_in = session.extra.get(HELD_IN)
    further = held_in[:MOST_FOLDERS] if isinstance(held_in, list) else []
    top = project.removesuffix(f"/{inside}") if inside else project
    texts = (folder for folder in (top, *further) if isinstance(folder, str))
    return list(dict.fromkeys(filter(os.path.isabs, texts)))


def held_in_workspace(session: Session, root: str, folder: str) -> dict[str, Any]:
    """Return what to record because a workspace's conversation is held in this folder: where the workspace is now."""
    known = tops_of(session)
    if not folder or root in known or not is_below(os.path.realpath(folder), os.path.realpath(root)):
        return {}
    return {HELD_IN: [root, *known][:MOST_FOLDERS]}


def _of(line: _WorkTree) -> Repository:
    return Repository(line.roots, line.remotes)


def _inside(repository: Repository, path: str) -> Repository:
    return repository if path == os.curdir else msgspec.structs.replace(repository, inside=path)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1
