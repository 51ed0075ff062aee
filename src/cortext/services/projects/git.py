"""Git: commits of conversations, and of nothing else.

Plain git, limited to the named paths: what the user has staged or changed elsewhere stays exactly as it is. A commit
that fails (a hook, a lock, no identity, a merge in progress) loses nothing and is explained; the same paths go into the
next one. A hook that rewrites a session's files (a formatter) is overruled: the original content is restored and
committed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from cortext.io import durable
from cortext.model import clock
from cortext.safety.credentials import for_child
from cortext.services.projects.repository import top_of

TIMEOUT = 120  # seconds; a hook or a passphrase may take a while
RELEASES_TIMEOUT = 2.0  # seconds for the tags of a repository
MOST_TAGS = 1_000  # tags that are looked at, the newest first
LOCK_TIMEOUT = 10.0  # seconds to wait for another git process
MERGE_DRIVER = "merge.cortext"  # the section of our merge driver in the settings of git
STASHED = "refs/stash^3"  # untracked files are in the stash's third parent
# Names of temporary files of `durable.replace_file`: never committed.
_HALF_WRITTEN = re.compile(r"\..+\.\d+\.[0-9a-f]+\.tmp")
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_NOT_INSTALLED, _TOO_SLOW, _REFUSED = 127, 124, 128  # exit codes: of a shell, of `timeout`, and git's own
_REWRITTEN = "a git hook rewrites the files of conversations"


class _Done(NamedTuple):  # a command that has ended
    returncode: int
    stdout: bytes
    stderr: bytes


class CommitResult(msgspec.Struct, kw_only=True):
    """The result of a commit: its short hash, or why there is none."""

    commit: str = ""
    nothing_new: bool = False
    problem: str = ""
    hint: str = ""
    note: str = ""  # what the user should know although it succeeded


class Git:
    """The git repository that a folder is in."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def is_repository(self) -> bool:
        """Whether the folder is in a repository and git is available."""
        return self._run("rev-parse", "--is-inside-work-tree").stdout.strip() == b"true"

    def is_installed(self) -> bool:
        """Whether git is installed."""
        return self._run("--version").returncode != _NOT_INSTALLED

    def init(self) -> None:
        """Make the folder a repository."""
        self._run("init", "-q")

    def ignored(self, paths: Sequence[str]) -> set[str]:
        """Return which of these paths the user ignores; also those that were tracked before they were ignored."""
        if not paths:
            return set()
        # These are names that git must not take for patterns, and this command does not support literal pathspecs.
        names = b"".join(os.fsencode(f"./{path}") + b"\0" for path in paths)
        done = self._run("check-ignore", "--no-index", "-z", "--stdin", given=names, literal=False)
        return {path.removeprefix("./") for path in _names(done.stdout)}

    def tracked_although_ignored(self, path: str) -> list[str]:
        """Return files that git tracks although they are ignored: they are no longer committed."""
        return _names(self._run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", "--", path).stdout)

    def changed(self, paths: Sequence[str]) -> list[str]:
        """Return the files below these paths that differ from the last commit (new ones too), relative to the folder.

        Ignored files and those that are being written are left out.
        """
        done = self._run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", *paths)
        prefix = self._run("rev-parse", "--show-prefix").stdout.decode("utf-8", "surrogateescape").strip()
        found = [entry[3:].removeprefix(prefix) for entry in _names(done.stdout)]
        complete = [path for path in found if not _HALF_WRITTEN.fullmatch(os.path.basename(path))]
        ignored = self.ignored(complete)
        return [path for path in complete if path not in ignored]

    def commit(
        self,
        paths: Sequence[str],
        message: str,
        *,
        ours: Sequence[str] = (),
        restore: Callable[[str, bytes], None] | None = None,
        without: Collection[str] = (),
        amend: bool = False,
    ) -> CommitResult:
        """Commit these paths as they are in the work tree, and only them; those in `without` are left out.

        What is below the folders `ours` is committed as it is now, whatever a hook makes of it; `restore` is called
        with the path and the original content of each such file that a hook rewrote.
        """
        wanted = [path for path in self.changed(paths) if path not in without]
        if not wanted:
            return CommitResult(nothing_new=True)
        below = tuple(f"{folder}/" for folder in ours)
        guarded = [path for path in wanted if path.startswith(below) and self._is_file(path)]
        written = self._blobs(guarded, keep=True)
        done = self._commit_only(wanted, message, *(("--amend",) if amend else ()))
        rewritten = [path for path, blob in self._blobs(guarded).items() if blob != written[path]]
        for path in rewritten:
            contents = self._run("cat-file", "blob", written[path]).stdout
            if restore is not None:
                restore(path, contents)
            else:
                durable.replace_file(os.path.join(self.folder, path), [contents])
        if done.problem:
            if not rewritten:
                return done
            return CommitResult(
                problem=f"{_REWRITTEN}, and refused the commit",
                hint=f"exclude {below[0]} from that hook, then save again",
            )
        changed = [path for path in self.changed(guarded) if path in written] if guarded else []
        if changed and self.head("--short") == done.commit:  # the hook's version was committed: amend it
            again = self._commit_only(changed, message, "--amend", "--no-verify")
            done = again if again.commit else done
        if rewritten or changed:
            done.note = f"{_REWRITTEN}: the original text was restored. Exclude {below[0]} from that hook"
        return done

    def _commit_only(self, wanted: Sequence[str], message: str, *how: str) -> CommitResult:
        known = set(_names(self._run("ls-files", "-z", "--", *wanted).stdout))
        new = [path for path in wanted if path not in known]
        if new:
            # Intent-to-add only, so that `--only` may name them; none of our content enters the user's index.
            added = self._run_when_unlocked("add", "--intent-to-add", "--", *new)
            if added.returncode:
                return _explain(added)
        raw = message.encode("utf-8", "replace")  # via stdin: it contains the title, and arguments are public
        done = self._run_when_unlocked("commit", "--quiet", *how, "--only", "--file", "-", "--", *wanted, given=raw)
        if done.returncode:
            if new:
                self._run_when_unlocked("reset", "--quiet", "--", *new)
            return _explain(done)
        return CommitResult(commit=self.head("--short"))

    def _is_file(self, path: str) -> bool:
        return os.path.isfile(os.path.join(self.folder, path))

    def _blobs(self, paths: Sequence[str], *, keep: bool = False) -> dict[str, str]:
        """Return git's object ids for the content of these files; with `keep`, also store the content."""
        if not paths:
            return {}
        done = self._run("hash-object", "--no-filters", *(("-w",) if keep else ()), "--", *paths)
        return dict(zip(paths, done.stdout.decode("ascii").split(), strict=False))

    def config(self, key: str, value: str | None = None) -> str:
        """Read a setting of this repository, or write it."""
        if value is None:
            return self._run("config", "--local", "--get", key).stdout.decode("utf-8", "replace").strip()
        self._run("config", key, value)
        return value

    def config_file(self) -> str:
        """Return the path of this repository's config, which is elsewhere for a worktree or a submodule."""
        shown = self._run("rev-parse", "--git-path", "config").stdout.decode("utf-8", "surrogateescape")
        return os.path.normpath(os.path.join(self.folder, shown.removesuffix("\n")))

    def unset(self, section: str) -> None:
        """Remove a section from the repository's config."""
        self._run("config", "--remove-section", section)

    def head(self, *how: str) -> str:
        """Return the last commit; empty if there is none."""
        done = self._run("rev-parse", "--verify", "-q", *how, "HEAD")
        return done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""

    def added(self, since: str, folder: str) -> list[str]:
        """Return every file ever added below a folder, in the commits after `since` (empty: in all of them)."""
        words = ("log", "-z", "--format=", "--name-only", "--no-renames", "--diff-filter=A", "--relative")
        done = self._run(*words, f"{since}..HEAD" if since else "HEAD", "--", folder)
        if done.returncode != 0 and since:  # that commit is gone: history was rewritten
            return self.added("", folder)
        return _names(done.stdout)

    def refs_with(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the branches, tags and newest stash that have these files, by file; paths are relative to the folder.

        One process looks all of them up, however many branches there are.
        """
        done = self._run("for-each-ref", "--format=%(refname)")
        refs = done.stdout.decode("utf-8", "surrogateescape").split()
        refs += [STASHED] if "refs/stash" in refs else []
        pairs = [(ref, path) for path in paths if "\n" not in path for ref in refs]
        given = os.fsencode("".join(f"{ref}:./{path}\n" for ref, path in pairs))
        lines = self._run("cat-file", "--batch-check", given=given).stdout.splitlines() if pairs else []
        found: dict[str, list[str]] = {}
        for (ref, path), line in zip(pairs, lines, strict=False):
            if not line.endswith(b" missing"):
                found.setdefault(path, []).append(ref)
        return found

    def heads(self, timeout: float) -> tuple[str, list[str]] | None:
        """Return the commit checked out and the last one of every local branch (or nothing); None if git fails."""
        first = self._run("rev-parse", "--verify", "--quiet", "HEAD", timeout=timeout)
        done = self._run("for-each-ref", "--format=%(objectname)", "refs/heads", timeout=timeout)
        if first.returncode > 1 or done.returncode:
            return None
        head = first.stdout.decode("ascii", "replace").strip()
        return head, sorted(set(done.stdout.decode("ascii", "replace").split()))

    def descends(self, commit: str, ancestor: str) -> bool:
        """Whether one commit is another one or follows it."""
        return commit == ancestor or self._run("merge-base", "--is-ancestor", ancestor, commit).returncode == 0

    def added_in(self, commits: Iterable[str], but_in: Iterable[str], folder: str, timeout: float) -> list[str] | None:
        """Return the files below a folder that these commits added, and not the others; None if git fails."""
        wanted = [*commits, *(f"^{commit}" for commit in but_in)]
        words = ("--ignore-missing", "--no-renames", "--diff-filter=A", "--format=", "--name-only", "--relative", "-z")
        done = self._run("log", "--stdin", *words, "--", folder, given="\n".join(wanted).encode(), timeout=timeout)
        return sorted({name.lstrip("\n") for name in _names(done.stdout)}) if not done.returncode else None

    def file_at(self, ref: str, path: str) -> bytes | None:
        """Return the content of a file in a branch; None if it has none."""
        done = self._run("cat-file", "blob", f"{ref}:./{path}")
        return done.stdout if not done.returncode else None

    def reading(self, *words: str, timeout: float = TIMEOUT, literal: bool = True) -> bytes | None:
        """Return the output of a command that only reads; None if it fails. It runs no filter that the user set up."""
        done = self._run(*words, timeout=timeout, literal=literal)
        return done.stdout if done.returncode == 0 else None

    def root_commits(self, timeout: float) -> list[str]:
        """Return the commits without parents that the last commit descends from.

        None are known without a commit, in a shallow clone, or if a long history takes longer than this many seconds.
        """
        if self._run("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
            return []
        done = self._run("rev-list", "--max-parents=0", "HEAD", "--", timeout=timeout)
        return done.stdout.decode("ascii", "replace").split() if done.returncode == 0 else []

    def remote_addresses(self) -> list[str]:
        """Return the addresses that git fetches from. They may contain passwords."""
        lines = self._run("remote", "--verbose").stdout.decode("utf-8", "replace").splitlines()
        addresses = (line.partition("\t")[2].rpartition(" ") for line in lines)
        return [address for address, _, use in addresses if use == "(fetch)"]

    def _bare_repository(self) -> str:
        """Return a folder that git would take for a bare repository: possibly a stranger's, with hooks of its own.

        Git searches upwards from the folder, and takes one with HEAD and objects for a bare repository. A clone can
        contain such folders, but no `.git`. (`safe.bareRepository` does the same in git of 2022 or later.)
        """
        folder = os.path.realpath(self.folder)
        while not os.path.lexists(os.path.join(folder, ".git")):
            if os.path.lexists(f"{folder}/HEAD") and any(
                map(os.path.lexists, (f"{folder}/objects", f"{folder}/commondir"))
            ):
                return folder
            parent = os.path.dirname(folder)
            if parent == folder:
                break
            folder = parent
        return ""

    def _run_when_unlocked(self, *words: str, given: bytes | None = None) -> _Done:
        """Run a command that writes, waiting for other git processes to finish."""
        deadline = time.monotonic() + LOCK_TIMEOUT
        pause = 0.05
        while True:
            done = self._run(*words, given=given)
            if not done.returncode or not _is_locked(done) or time.monotonic() >= deadline:
                return done
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _run(self, *words: str, given: bytes | None = None, literal: bool = True, timeout: float = TIMEOUT) -> _Done:
        import subprocess  # a list imports this module, and starts no process

        # Inside a git hook these point to the hook's repository; ours is that of the folder.
        inherited = for_child(os.environ)
        environ = {name: value for name, value in inherited.items() if not name.startswith("GIT_") or name in _KEPT}
        # Reading must not take locks: another git process would fail on them.
        environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
        if literal:
            environ["GIT_LITERAL_PATHSPECS"] = "1"
        command = ["git", "-C", self.folder, *words]
        if words[0] != "init" and (bare := self._bare_repository()):
            problem = f"{bare} is a repository inside another one's files: git would run the hooks that it contains"
            return _Done(_REFUSED, b"", os.fsencode(problem))
        try:
            done = subprocess.run(
                command, env=environ, input=given or b"", capture_output=True, timeout=timeout, check=False
            )
        except FileNotFoundError:
            return _Done(_NOT_INSTALLED, b"", b"git is not installed")
        except subprocess.TimeoutExpired:
            return _Done(_TOO_SLOW, b"", f"git took over {timeout} s".encode())
        return _Done(done.returncode, done.stdout, done.stderr)


def _names(output: bytes) -> list[str]:
    """Split names that git printed with -z."""
    return [name for name in output.decode("utf-8", "surrogateescape").split("\0") if name]


def _is_locked(done: _Done) -> bool:
    """Whether a command failed because another git process is using this repository."""
    return b".lock': File exists" in done.stderr or b"cannot lock ref" in done.stderr


_KEPT = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXEC_PATH",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
)

# What git prints, the problem, and what the user should do.
_NOBODY = ("git does not know who you are", "set user.name and user.email with git config")
_REASONS = (
    ("empty ident name", *_NOBODY),
    ("tell me who you are", *_NOBODY),
    ("index.lock", "another git process is running", "wait for it, or remove the stale lock that it names"),
    ("during a merge", "a merge is in progress", "finish the merge: the session is committed with the next save"),
    ("gpg failed", "the commit could not be signed", "unlock your key, then save again"),
    ("failed to write commit object", "the commit could not be signed", "check your signing key, then save again"),
    ("signing", "the commit could not be signed", "unlock your key, then save again"),
    ("git is not installed", "git is not installed", "install git; the files are saved anyway"),
)


def _explain(done: _Done) -> CommitResult:
    output = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
    for text, problem, hint in _REASONS:
        if text in output:
            return CommitResult(problem=problem, hint=hint)
    last = output.splitlines()[-1] if output else f"git exited with {done.returncode}"
    return CommitResult(
        problem=f"git refused the commit: {last[:200]}", hint="if a hook refused it, follow what it says"
    )


def release_time(folder: str, version: str) -> str:
    """Return when this version of the project in a folder was tagged (empty: the newest); empty if there is no tag."""
    top = top_of(folder)
    if not top:
        return ""
    form = "--format=%(creatordate:unix) %(refname:short)"
    words = ("for-each-ref", f"--count={MOST_TAGS}", "--sort=-creatordate", form)
    listed = Git(top).reading(*words, "refs/tags", timeout=RELEASES_TIMEOUT) or b""
    for line in listed.decode("utf-8", "replace").splitlines():
        made, _, name = line.partition(" ")
        found = _VERSION.search(name)
        if found is not None and made.isdigit() and (not version or found[0] == version):
            return clock.from_epoch(int(made))
    return ""


def set_merge_driver(git: Git, program: str, *, dry_run: bool = False) -> bool:
    """Tell this clone's git how to merge sessions; return whether that was new.

    The attributes travel with the repository; this setting does not.
    """
    wanted = {
        f"{MERGE_DRIVER}.name": "cortext: keeps every message of both sides",
        f"{MERGE_DRIVER}.driver": f"{program} merge-driver %O %A %B %P",
    }
    new = {key: value for key, value in wanted.items() if git.config(key) != value}
    if not dry_run:
        for key, value in new.items():
            git.config(key, value)
        return any(git.config(key) == value for key, value in new.items())  # false in a read-only repository
    return bool(new)


def unset_merge_driver(git: Git, *, dry_run: bool = False) -> bool:
    """Remove the setting; return whether it existed."""
    exists = bool(git.config(f"{MERGE_DRIVER}.name") or git.config(f"{MERGE_DRIVER}.driver"))
    if exists and not dry_run:
        git.unset(MERGE_DRIVER)
    return exists
