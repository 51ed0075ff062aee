"""The safety copies of a workspace's conversations: where they are, and those of sessions that only a branch has."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable
from cortext.model.ids import slug
from cortext.services.projects.repository import common_folder, top_of, work_trees
from cortext.store.files.layout_paths import CONVERSATIONS, REPOSITORY, SESSION, in_folder

if TYPE_CHECKING:
    from cortext.services.projects.git import Git
    from cortext.store.files.safety_copies import SafetyCopies

_MOST_SECONDS = 5.0  # for the history of the branches
_LOG = re.compile(
    rf"({CONVERSATIONS}/[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}/[a-z0-9][a-z0-9_-]{{0,95}})/{re.escape(SESSION)}/messages\.jsonl"
)


class Copied(NamedTuple):
    """Where the safety copies of a workspace are: those of all work trees of its repository are together."""

    folder: str
    root: str
    common: str  # git's folder that all work trees share
    inside: str  # the path of the workspace in each work tree

    def trees(self) -> list[str]:
        """Return the same workspace in every work tree of the repository that exists; the main one is the first."""
        real = os.path.realpath(self.root)
        tops = [os.path.normpath(os.path.join(top, self.inside)) for top in work_trees(self.common)]
        trees = [self.root if os.path.realpath(tree) == real else tree for tree in tops]
        return [tree for tree in dict.fromkeys((*trees, self.root)) if os.path.isdir(tree)]

    @property
    def record(self) -> str:
        """What is written beside the copies: by it they are found again after the repository was moved."""
        status = os.stat(self.common)
        return f"{self.common}\n{status.st_dev}.{status.st_ino}\n{self.inside}\n"


def all_copies() -> str:
    """Return the folder with the safety copies of every repository."""
    return os.path.join(folders.data(), "copies")


def copied(root: str) -> Copied | None:
    """Return where the safety copies of a workspace are; None if it is not in git."""
    top = top_of(root)
    common = common_folder(top) if top else ""
    if not common:
        return None
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    digest = hashlib.sha256(os.fsencode(f"{common}\0{inside}")).hexdigest()[:12]
    name = f"{slug(os.path.basename(common.removesuffix('/.git')), 40) or 'repository'}-{digest}"
    found = Copied(os.path.join(all_copies(), name), root, common, inside)
    if not os.path.isdir(found.folder):
        _follow(found)
    return found


def _follow(moved: Copied) -> None:
    """Rename the copies of a repository whose folder was moved: it is the same folder, at another path."""
    now = moved.record.splitlines()
    for folder, before in _records():
        if before[1:] == now[1:] and not os.path.exists(before[0]):
            try:
                durable.move(folder, moved.folder)
                durable.replace_file(os.path.join(moved.folder, REPOSITORY), [os.fsencode(moved.record)])
            except CortextError:
                return  # a read-only home, or another process was faster


def _records() -> Iterator[tuple[str, list[str]]]:
    """Yield the folder of each repository's copies, with its record."""
    try:
        names = sorted(os.listdir(all_copies()))
    except OSError:
        return
    for name in names:
        folder = os.path.join(all_copies(), name)
        try:
            lines = durable.read_text(os.path.join(folder, REPOSITORY), "surrogateescape").splitlines()
        except OSError:
            continue
        if len(lines) == 3:
            yield folder, lines


def workspaces_with_copies(known: Iterable[str]) -> Iterator[str]:
    """Yield workspaces that git removed (`clean -fdx`, a removed work tree), while copies of theirs are kept.

    `known` are the workspaces that exist: if one is of the same repository, it lists those copies.
    """
    tops = {os.path.realpath(root) for root in known}
    for _, (common, _, inside) in _records():
        trees = [os.path.normpath(os.path.join(top, inside)) for top in work_trees(common)]
        existing = [tree for tree in trees if os.path.isdir(tree)]
        if existing and tops.isdisjoint(map(os.path.realpath, existing)):
            yield existing[0]


def adopt_from_branches(found: Copied, copies: Callable[[], SafetyCopies]) -> None:
    """Keep copies of sessions that only other branches have: held before there were copies, or fetched from elsewhere.

    Git is asked only when a branch or what is checked out has changed. A session that the branch in the work tree once
    had was removed from it on purpose.
    """
    seen = _BranchRecord.of(found)
    now = _fingerprint(found)
    if seen.fingerprint == now:
        return
    from cortext.services.projects.git import Git  # few looks at a workspace find its branches changed

    git = Git(found.root)
    head, tips = git.heads()
    known = seen.tips if seen.head and git.descends(head, seen.head) else []
    new = [tip for tip in tips if tip != head and tip not in known]
    try:
        added = (
            git.added_in(new, [head, *known] if head else known, CONVERSATIONS, _MOST_SECONDS) if head and new else []
        )
        _adopt(copies(), git, {match[1] for path in added if (match := _LOG.fullmatch(path))})
        durable.ensure_folder(found.folder)
        stamp = _BranchRecord(fingerprint=now, head=head, tips=[tip for tip in tips if tip != head])
        durable.replace_file(os.path.join(found.folder, _BranchRecord.NAME), [msgspec.json.encode(stamp)])
    except (CortextError, OSError):
        return  # a read-only home: it is tried again


def _adopt(copies: SafetyCopies, git: Git, sessions: Iterable[str]) -> None:
    logs = {f"{inside}/{SESSION}/messages.jsonl": inside for inside in sessions}
    for log, refs in git.refs_with(logs).items():
        heads = [ref for ref in refs if ref.startswith("refs/heads/")]
        if heads:
            longest = max(heads, key=lambda ref: len(git.file_at(ref, log) or b""))
            names = [path[len(logs[log]) + 1 :] for path in in_folder(logs[log])[2:] if path]
            contents = {name: git.file_at(longest, f"{logs[log]}/{name}") for name in names}
            copies.adopt(logs[log], {name: content for name, content in contents.items() if content is not None})


class _BranchRecord(msgspec.Struct):
    """For which branches `adopt_from_branches` was done: their last commits, without the one that was checked out."""

    NAME: ClassVar = "branches.json"

    fingerprint: list[tuple[str, int]] = []
    head: str = ""
    tips: list[str] = []

    @classmethod
    def of(cls, found: Copied) -> _BranchRecord:
        try:
            return msgspec.json.decode(durable.read_file(os.path.join(found.folder, cls.NAME)), type=cls)
        except (OSError, CortextError, msgspec.MsgspecError):
            return cls()


def _fingerprint(found: Copied) -> list[tuple[str, int]]:
    """Return what changes if a branch is created, moved or checked out: git replaces these files."""
    top = top_of(found.root)
    own = os.path.join(top, ".git")
    files = [os.path.join(found.common, name) for name in ("packed-refs", "reftable")]
    files += [folder for folder, _, _ in os.walk(os.path.join(found.common, "refs", "heads"))]
    files += [os.path.join(own, "HEAD") if os.path.isdir(own) else own]
    times = []
    for path in files:
        try:
            times.append((path, os.stat(path).st_mtime_ns))
        except OSError:
            continue
    return times
