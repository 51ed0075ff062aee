"""Git: commits of conversations, and of nothing else.

Plain git, limited to the paths that are named: what the user has staged or changed elsewhere stays exactly as it
is. A commit that fails (a hook, a lock, no identity, a merge under way) loses nothing and is explained; the
same paths go with the next one. A hook that rewrites the files of a session (a formatter) does not get its way:
what was written is put back, and committed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from cortext.io import files as fsio
from cortext.safety.environment import for_child

TIMEOUT = 120  # a hook or a passphrase may take its time, but not for ever
PATIENCE = 10.0  # seconds in which another git process may finish its work
# What `fsio.replace_file` calls a file until it is whole: never to be committed.
_HALF_WRITTEN = re.compile(r"\..+\.\d+\.[0-9a-f]+\.tmp")
_REWRITTEN = "a git hook rewrites the files of conversations"


class Committed(msgspec.Struct, kw_only=True):
    """What became of a commit: its short hash, or why there is none."""

    commit: str = ""
    nothing_new: bool = False
    problem: str = ""
    hint: str = ""
    note: str = ""  # what the user should know although it went well


class Git:
    """The git repository that a folder lies in."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def is_repository(self) -> bool:
        """Whether there is one, and git to work with it."""
        return self._run("rev-parse", "--is-inside-work-tree").stdout.strip() == b"true"

    def is_installed(self) -> bool:
        """Whether there is a git to call."""
        return shutil.which("git") is not None

    def init(self) -> None:
        """Make the folder a repository."""
        self._run("init", "-q")

    def ignored(self, paths: Sequence[str]) -> set[str]:
        """Which of these paths the user keeps out of git; also one that was tracked before it was ignored."""
        if not paths:
            return set()
        # These are names, and git must not take one for a pattern: this command does not know literal pathspecs.
        names = b"".join(os.fsencode(f"./{path}") + b"\0" for path in paths)
        done = self._run("check-ignore", "--no-index", "-z", "--stdin", given=names, literal=False)
        return {path.removeprefix("./") for path in _names(done.stdout)}

    def tracked_although_ignored(self, path: str) -> list[str]:
        """Files that git tracks although the user's rules keep them out: they are no longer committed."""
        return _names(self._run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", "--", path).stdout)

    def changed(self, paths: Sequence[str]) -> list[str]:
        """Which files below these paths differ from the last commit (new ones too), relative to the folder.

        Without those that the user keeps out of git, and those that are only half written.
        """
        done = self._run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", *paths)
        prefix = self._run("rev-parse", "--show-prefix").stdout.decode("utf-8", "surrogateescape").strip()
        found = [entry[3:].removeprefix(prefix) for entry in _names(done.stdout)]
        whole = [path for path in found if not _HALF_WRITTEN.fullmatch(os.path.basename(path))]
        ignored = self.ignored(whole)
        return [path for path in whole if path not in ignored]

    def commit(
        self,
        paths: Sequence[str],
        message: str,
        *,
        ours: str = "",
        put_back: Callable[[str, bytes], None] | None = None,
        without: Collection[str] = (),
    ) -> Committed:
        """Commit these paths as they are in the work tree, and only them; those in `without` stay out.

        What lies below the folder `ours` is committed as it is now, whatever a hook makes of it; `put_back` gets the
        path and the contents of each such file that a hook rewrote.
        """
        wanted = [path for path in self.changed(paths) if path not in without]
        if not wanted:
            return Committed(nothing_new=True)
        guarded = [path for path in wanted if ours and path.startswith(f"{ours}/") and self._is_file(path)]
        written = self._blobs(guarded, keep=True)
        done = self._commit_only(wanted, message)
        rewritten = [path for path, blob in self._blobs(guarded).items() if blob != written[path]]
        for path in rewritten:
            contents = self._run("cat-file", "blob", written[path]).stdout
            if put_back is not None:
                put_back(path, contents)
            else:
                fsio.replace_file(os.path.join(self.folder, path), [contents])
        if done.problem:
            if not rewritten:
                return done
            return Committed(
                problem=f"{_REWRITTEN}, and refused the commit", hint=f"exclude {ours}/ from that hook, then save again"
            )
        changed = [path for path in self.changed(guarded) if path in written] if guarded else []
        if (
            changed and self.head("--short") == done.commit
        ):  # the hook's version was committed: it has lived for a moment
            again = self._commit_only(changed, message, "--amend", "--no-verify")
            done = again if again.commit else done
        if rewritten or changed:
            done.note = f"{_REWRITTEN}: the original text was restored. Exclude {ours}/ from that hook"
        return done

    def _commit_only(self, wanted: Sequence[str], message: str, *how: str) -> Committed:
        known = set(_names(self._run("ls-files", "-z", "--", *wanted).stdout))
        new = [path for path in wanted if path not in known]
        if new:
            # Only announced, so that `--only` may name them; the user's index gets no contents of ours.
            added = self._patiently("add", "--intent-to-add", "--", *new)
            if added.returncode:
                return _explain(added)
        said = message.encode("utf-8", "replace")  # it holds the title: everybody can read an argument
        done = self._patiently("commit", "--quiet", *how, "--only", "--file", "-", "--", *wanted, given=said)
        if done.returncode:
            if new:
                self._patiently("reset", "--quiet", "--", *new)
            return _explain(done)
        return Committed(commit=self.head("--short"))

    def _is_file(self, path: str) -> bool:
        return os.path.isfile(os.path.join(self.folder, path))

    def _blobs(self, paths: Sequence[str], *, keep: bool = False) -> dict[str, str]:
        """What git calls the contents of these files; with `keep` it also has them then."""
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
        """Where this repository keeps its settings: with a worktree or a submodule not below the folder."""
        shown = self._run("rev-parse", "--git-path", "config").stdout.decode("utf-8", "surrogateescape")
        return os.path.normpath(os.path.join(self.folder, shown.removesuffix("\n")))

    def unset(self, section: str) -> None:
        """Take a section out of the repository's settings."""
        self._run("config", "--remove-section", section)

    def head(self, *how: str) -> str:
        """The last commit; empty where there is none."""
        done = self._run("rev-parse", "--verify", "-q", *how, "HEAD")
        return done.stdout.decode("ascii", "replace").strip() if done.returncode == 0 else ""

    def added(self, since: str, folder: str) -> list[str]:
        """Every file that was ever added below a folder, in the commits after `since` (empty: in all of them)."""
        words = ("log", "-z", "--format=", "--name-only", "--no-renames", "--diff-filter=A", "--relative")
        done = self._run(*words, f"{since}..HEAD" if since else "HEAD", "--", folder)
        if done.returncode != 0 and since:  # a commit that is gone: history was rewritten
            return self.added("", folder)
        return _names(done.stdout)

    def _planted(self) -> str:
        """A folder that git would take for a repository without `.git`: perhaps a stranger's, with hooks of its own.

        Git looks upwards from the folder, and takes what has HEAD and objects for a bare repository. A clone can bring
        such folders along, but no `.git`. (`safe.bareRepository` says the same, to a git of 2022 or later.)
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

    def _patiently(self, *words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """The same for a command that writes: another git process at work is waited for."""
        deadline = time.monotonic() + PATIENCE
        pause = 0.05
        while True:
            done = self._run(*words, given=given)
            if not done.returncode or not _is_locked(done) or time.monotonic() >= deadline:
                return done
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def _run(self, *words: str, given: bytes | None = None, literal: bool = True) -> subprocess.CompletedProcess[bytes]:
        # Inside a git hook these point at the repository of the hook: ours is the one of the folder.
        given_on = for_child(os.environ)
        environ = {name: value for name, value in given_on.items() if not name.startswith("GIT_") or name in _KEPT}
        # Looking must not lock: somebody else's git would fail on it.
        environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
        if literal:
            environ["GIT_LITERAL_PATHSPECS"] = "1"
        command = ["git", "-C", self.folder, *words]
        if words[0] != "init" and (planted := self._planted()):
            said = f"{planted} is a repository among the files of another: git would run what it brought along"
            return subprocess.CompletedProcess(command, 128, b"", os.fsencode(said))
        try:
            return subprocess.run(
                command, env=environ, input=given or b"", capture_output=True, timeout=TIMEOUT, check=False
            )
        except FileNotFoundError:
            return subprocess.CompletedProcess(command, 127, b"", b"git is not installed")
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, b"", f"git took over {TIMEOUT} s".encode())


def _names(output: bytes) -> list[str]:
    """Names as git prints them with -z."""
    return [name for name in output.decode("utf-8", "surrogateescape").split("\0") if name]


def _is_locked(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether a command failed because another git process is at work in this repository."""
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

# What git says, and what to tell the user to do about it.
_REASONS = (
    ("empty ident name", "git does not know who you are", "git config user.name and user.email, then save again"),
    ("tell me who you are", "git does not know who you are", "git config user.name and user.email, then save again"),
    ("index.lock", "another git process is at work", "wait for it, or remove the stale lock that it names"),
    ("during a merge", "a merge is under way", "finish the merge: the session goes with the next save"),
    ("gpg failed", "the commit could not be signed", "unlock your key, then save again"),
    ("failed to write commit object", "the commit could not be signed", "check your signing key, then save again"),
    ("signing", "the commit could not be signed", "unlock your key, then save again"),
    ("git is not installed", "git is not installed", "install git; the files are saved anyway"),
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
