"""Git: commits of conversations, and of nothing else.

Plain git, limited to the paths that are named: what the user has staged or changed elsewhere stays exactly as it
is. A commit that fails (a hook, a lock, no identity, a merge under way) loses nothing and is explained; the
same paths go with the next one.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import msgspec

TIMEOUT = 120  # a hook or a passphrase may take its time, but not for ever


class Committed(msgspec.Struct, kw_only=True):
    """What became of a commit: its short hash, or why there is none."""

    commit: str = ""
    nothing_new: bool = False
    problem: str = ""
    hint: str = ""


class Git:
    """The git repository that a folder lies in."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def is_repository(self) -> bool:
        """Whether there is one, and git to work with it."""
        return self._run("rev-parse", "--is-inside-work-tree").stdout.strip() == b"true"

    def is_installed(self) -> bool:
        """Whether there is a git to call."""
        import shutil

        return shutil.which("git") is not None

    def init(self) -> None:
        """Make the folder a repository."""
        self._run("init", "-q")

    def ignored(self, path: str) -> bool:
        """Whether the user keeps this path out of git."""
        return self._run("check-ignore", "-q", "--no-index", "--", path).returncode == 0

    def changed(self, paths: Sequence[str]) -> list[str]:
        """Which files below these paths differ from the last commit (new ones too), relative to the folder."""
        done = self._run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", *paths)
        prefix = self._run("rev-parse", "--show-prefix").stdout.decode("utf-8", "surrogateescape").strip()
        entries = [entry for entry in done.stdout.decode("utf-8", "surrogateescape").split("\0") if entry]
        return [entry[3:].removeprefix(prefix) for entry in entries]

    def commit(self, paths: Sequence[str], message: str) -> Committed:
        """Commit these paths as they are in the work tree, and only them."""
        wanted = [path for path in self.changed(paths) if not self.ignored(path)]
        if not wanted:
            return Committed(nothing_new=True)
        known = self._run("ls-files", "-z", "--", *wanted).stdout.decode("utf-8", "surrogateescape").split("\0")
        new = [path for path in wanted if path not in set(known)]
        if new:
            # Only announced, so that `--only` may name them; the user's index gets no contents of ours.
            added = self._run("add", "--intent-to-add", "--", *new)
            if added.returncode:
                return _explain(added)
        done = self._run("commit", "--quiet", "--only", "--message", message, "--", *wanted)
        if done.returncode:
            if new:
                self._run("reset", "--quiet", "--", *new)
            return _explain(done)
        return Committed(commit=self._run("rev-parse", "--short", "HEAD").stdout.decode("ascii").strip())

    def config(self, key: str, value: str | None = None) -> str:
        """Read a setting of this repository, or write it."""
        if value is None:
            return self._run("config", "--local", "--get", key).stdout.decode("utf-8", "replace").strip()
        self._run("config", key, value)
        return value

    def config_file(self) -> str:
        """Where this repository keeps its settings: with a worktree or a submodule not below the folder."""
        shown = self._run("rev-parse", "--git-path", "config").stdout.decode("utf-8", "surrogateescape")
        return os.path.normpath(os.path.join(self.folder, shown.removesuffix("\n")))

    def unset(self, section: str) -> None:
        """Take a section out of the repository's settings."""
        self._run("config", "--remove-section", section)

    def head(self) -> str:
        """The last commit; empty where there is none."""
        done = self._run("rev-parse", "--verify", "-q", "HEAD")
        return done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""

    def added(self, since: str, folder: str) -> list[str]:
        """Every file that was ever added below a folder, in the commits after `since` (empty: in all of them)."""
        words = ("log", "-z", "--format=", "--name-only", "--no-renames", "--diff-filter=A", "--relative")
        done = self._run(*words, f"{since}..HEAD" if since else "HEAD", "--", folder)
        if done.returncode != 0 and since:  # a commit that is gone: history was rewritten
            return self.added("", folder)
        return [name for name in done.stdout.decode("utf-8", "surrogateescape").split("\0") if name]

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        # Inside a git hook these point at the repository of the hook: ours is the one of the folder.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
        environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8", "GIT_LITERAL_PATHSPECS": "1"}
        command = ["git", "-C", self.folder, *words]
        try:
            return subprocess.run(
                command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False
            )
        except FileNotFoundError:
            return subprocess.CompletedProcess(command, 127, b"", b"git is not installed")
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, b"", f"git took over {TIMEOUT} s".encode())


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

# What git says, and what to tell the user to do about it.
_REASONS = (
    ("empty ident name", "git does not know who you are", "git config user.name and user.email, then save again"),
    ("tell me who you are", "git does not know who you are", "git config user.name and user.email, then save again"),
    ("index.lock", "another git process is at work", "wait for it, or remove the stale lock that it names"),
    ("during a merge", "a merge is under way", "finish the merge: the session goes with the next save"),
    ("gpg failed", "the commit could not be signed", "unlock your key, then save again"),
    ("failed to write commit object", "the commit could not be signed", "check your signing key, then save again"),
    ("signing", "the commit could not be signed", "unlock your key, then save again"),
    ("git is not installed", "git is not installed", "install git; the files are saved all the same"),
)


def _explain(done: subprocess.CompletedProcess[bytes]) -> Committed:
    said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
    for sign, problem, hint in _REASONS:
        if sign in said:
            return Committed(problem=problem, hint=hint)
    first = said.splitlines()[-1] if said else f"git ended with {done.returncode}"
    return Committed(
        problem=f"git would not commit: {first[:200]}", hint="a hook may have refused it: see what it says"
    )
