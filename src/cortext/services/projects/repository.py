"""What a project is known by after its folder was moved, renamed or cloned: its git repository.

A repository is known by its first commits, which every clone, worktree and fork has, and by its remotes, which tell
forks apart and are all that is known of a shallow clone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import escape, iglob

import msgspec

from cortext.io import durable

MOST = 8  # first commits, and remotes, that are kept
SHORT = 9  # characters of a commit, as git shows it
_LONGEST_BRANCH = 250
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_REF = "ref: refs/heads/"
_ELSEWHERE = ".invalid"  # the branch in HEAD if git keeps branches in another format

_URL = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?P<host>[^/]*)(?P<path>/.*)?")
_SCP = re.compile(r"(?P<host>[^/:]+):(?P<path>.*)")  # git@github.com:someone/pond.git


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """The repository that a folder is in, and the folder's path inside it (empty: its top)."""

    roots: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()
    inside: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is anything by which it could be recognised elsewhere."""
        return bool(self.roots or self.remotes)

    def is_same(self, other: Repository) -> bool:
        """Whether both are the same repository or forks of one; remotes count only if first commits are unknown."""
        if self.roots and other.roots:
            return not set(self.roots).isdisjoint(other.roots)
        return not set(self.remotes).isdisjoint(other.remotes)

    def shares_remote(self, other: Repository) -> bool:
        """Whether both fetch from the same place, or neither fetches at all: then they are not forks."""
        return not set(self.remotes).isdisjoint(other.remotes) or not (self.remotes or other.remotes)


def repository_of(value: object) -> Repository:
    """Return a repository as it was recorded with a session; whatever is invalid counts as unknown."""
    try:
        return msgspec.convert(value, Repository)
    except msgspec.ValidationError:
        return Repository()


def top_of(folder: str) -> str:
    """Return the top folder of the work tree that a folder is in, without asking git; empty if there is none."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder


def _own_folder(top: str) -> str:
    """Return git's folder of a work tree; raise OSError or UnicodeDecodeError if that cannot be read."""
    own = os.path.join(top, ".git")
    if os.path.isdir(own):
        return own
    # A linked work tree, or a submodule.
    return os.path.join(top, durable.read_text(own).strip().removeprefix("gitdir: "))


def common_folder(top: str) -> str:
    """Return the folder that all work trees of a repository share; empty if unknown. Git is not asked."""
    try:
        own = _own_folder(top)
        try:
            shared = os.path.join(own, durable.read_text(os.path.join(own, "commondir")).strip())
        except OSError:
            shared = own
    except (OSError, UnicodeDecodeError):
        return ""
    return os.path.realpath(shared) if os.path.isdir(shared) else ""


class Checkout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The branch and the commit that are checked out; a detached one has no branch, a new branch no commit."""

    branch: str = ""
    head: str = ""

    @classmethod
    def of(cls, branch: object, head: object) -> Checkout:
        """Return what a tool or a session recorded, the commit shortened; whatever is invalid counts as unknown."""
        name = branch if isinstance(branch, str) and branch.isprintable() and len(branch) <= _LONGEST_BRANCH else ""
        is_commit = isinstance(head, str) and _COMMIT.fullmatch(head)
        return cls("" if name == "HEAD" else name, str(head)[:SHORT] if is_commit else "")


def checkout_of(folder: str) -> Checkout:
    """Return what is checked out where a folder is; empty as far as it is unknown. Git is not asked."""
    top = top_of(folder) if os.path.isabs(folder) else ""
    common = common_folder(top) if top else ""
    try:
        head = durable.read_text(os.path.join(_own_folder(top), "HEAD")).strip() if common else ""
        if not head.startswith(_REF):
            return Checkout.of("", head)
        name = head.removeprefix(_REF)
        return Checkout() if name == _ELSEWHERE else Checkout.of(name, _commit_of(common, head.removeprefix("ref: ")))
    except (OSError, UnicodeDecodeError):
        return Checkout()


def _commit_of(common: str, ref: str) -> str:
    """Return the commit of a branch, from its own file or the one with many; empty if it has none."""
    try:
        return durable.read_text(os.path.join(common, ref)).strip()
    except FileNotFoundError:
        pass
    try:
        lines = durable.read_text(os.path.join(common, "packed-refs")).splitlines()
    except FileNotFoundError:
        return ""
    return next((line.partition(" ")[0] for line in lines if line.endswith(f" {ref}")), "")


def work_trees(common: str) -> list[str]:
    """Return the top folders of the work trees of the repository with this common folder, the main one first."""
    found = [os.path.dirname(common)] if os.path.basename(common) == ".git" else []
    for path in sorted(iglob(os.path.join(escape(common), "worktrees", "*", "gitdir"))):
        try:
            found.append(os.path.dirname(durable.read_text(path).strip()))
        except (OSError, UnicodeDecodeError):
            continue
    return found


def is_below(folder: str, above: str) -> bool:
    """Whether a folder is another one or below it; both are absolute, or both relative to the top of a work tree."""
    return not above or f"{folder}/".startswith(f"{above}/")


def normalised_remotes(addresses: Iterable[str], top: str = "") -> tuple[str, ...]:
    """Return remotes in one form for https and ssh, without users, passwords and ports; local ones as paths."""
    found = {remote for address in addresses if (remote := _normalised(address.strip(), top))}
    return tuple(sorted(found)[:MOST])


def _normalised(address: str, top: str) -> str:
    from cortext.safety.secrets.masking import mask

    url = _URL.fullmatch(address)
    served = url or _SCP.fullmatch(address)
    if served is None or (url and url["scheme"].lower() == "file"):
        path = (url["path"] or "") if url else address
        remote = os.path.normpath(os.path.join(top, path)) if path else ""
        remote = remote if os.path.isabs(remote) else ""
    else:
        host = served["host"].rpartition("@")[2].lower()
        host = re.sub(r":\d*$", "", host)
        path = re.split(r"[?#]", served["path"] or "")[0].strip("/")
        remote = f"{host}/{path}" if host and path else ""
    remote = remote.removesuffix("/.git").removesuffix(".git").rstrip("/")
    return "" if mask(remote).findings else remote  # a token in the path itself: rather no remote than a stored secret
