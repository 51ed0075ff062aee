"""The safety copies of a workspace's conversations: where they are, and those of sessions that only a branch has."""

from __future__ import annotations

import hashlib
import os
import re
import time
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

# For the history of the branches, in a command and in `cortext doctor`; and after no answer, the time to the next try.
_MOST_SECONDS, _PATIENT_SECONDS, _PAUSE = 5.0, 120.0, 600.0
_LOG = re.compile(
    rf"({CONVERSATIONS}/[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}/[a-z0-9][a-z0-9_-]{{0,95}})/{re.escape(SESSION)}/messages\.jsonl"
)


class CopiesFolder(NamedTuple):
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


def copied(root: str) -> CopiesFolder | None:
    """Return where the safety copies of a workspace are; None if it is not in git."""
    top = top_of(root)
    common = common_folder(top) if top else ""
    if not common:
        return None
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top))
    digest = hashlib.sha256(os.fsencode(f"{common}\0{inside}")).hexdigest()[:12]
    name = f"{slug(os.path.basename(common.removesuffix('/.git')), 40) or 'repository'}-{digest}"
    found = CopiesFolder(os.path.join(all_copies(), name), root, common, inside)
    if not os.path.isdir(found.folder):
        _follow(found)
    return found


def _follow(moved: CopiesFolder) -> None:
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


def adopt_from_branches(found: CopiesFolder, copies: Callable[[], SafetyCopies], *, is_patient: bool = False) -> str:
    """Keep copies of sessions that only other branches have: held before there were copies, or fetched from elsewhere.

    Git is asked only when a branch or what is checked out has changed. A session that the branch in the work tree once
    had is removed from it on purpose. Returned is what the user is told if git failed. It is asked again a while later,
    or at once, with much time, by who `is_patient`.
    """
    seen = _BranchRecord.of(found)
    now = _fingerprint(found)
    is_answered = seen.fingerprint == now and not seen.failed_at
    if is_answered or (not is_patient and time.time() - seen.failed_at < _PAUSE):
        return ""
    seconds = _PATIENT_SECONDS if is_patient and seen.failed_at else _MOST_SECONDS
    from cortext.services.projects.git import Git  # few looks at a workspace find its branches changed

    git = Git(found.root)
    try:
        answer = _added(git, seen, seconds)
        durable.ensure_folder(found.folder)
        if answer is None:
            stamp = msgspec.structs.replace(seen, failed_at=time.time())
        else:
            head, tips, sessions = answer
            _adopt(copies(), git, sessions)
            stamp = _BranchRecord(fingerprint=now, head=head, tips=tips)
        durable.replace_file(os.path.join(found.folder, _BranchRecord.NAME), [msgspec.json.encode(stamp)])
    except (CortextError, OSError):
        return ""  # a read-only home: it is tried again
    if answer is not None:
        return ""
    return f"git did not say within {seconds:g} s which conversations only other branches of {found.root} have"


def _added(git: Git, seen: _BranchRecord, seconds: float) -> tuple[str, list[str], set[str]] | None:
    """Return what is checked out, the other branches' last commits, and sessions that they added; None if git fails."""
    heads = git.heads(seconds)
    if heads is None:
        return None
    head, tips = heads
    others = [tip for tip in tips if tip != head]
    known = seen.tips if seen.head and git.descends(head, seen.head) else []
    new = [tip for tip in others if tip not in known]
    if not head or not new:
        return head, others, set()
    added = git.added_in(new, [head, *known], CONVERSATIONS, seconds)
    if added is None:
        return None
    return head, others, {match[1] for path in added if (match := _LOG.fullmatch(path))}


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
    """For which branches `adopt_from_branches` is done: their last commits, without the one that was checked out."""

    NAME: ClassVar = "branches.json"

    fingerprint: list[tuple[str, int]] = []
    head: str = ""
    tips: list[str] = []
    failed_at: float = 0.0  # when git gave no answer about what is newer than that

    @classmethod
    def of(cls, found: CopiesFolder) -> _BranchRecord:
        try:
            return msgspec.json.decode(durable.read_file(os.path.join(found.folder, cls.NAME)), type=cls)
        except (OSError, CortextError, msgspec.MsgspecError):
            return cls()


def _fingerprint(found: CopiesFolder) -> list[tuple[str, int]]:
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
