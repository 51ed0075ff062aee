"""What git knows of a file: who changed each line last, and which commits added a line before.

Lines are compared without white space, and are evidence only if few other places would have them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from cortext.errors import NotFound, UsageError
from cortext.io import durable
from cortext.model import clock
from cortext.services.library.json_views import Json
from cortext.services.projects.git import Git
from cortext.services.projects.repository import is_below, top_of

LEAST_CHARACTERS = 12  # letters and digits of a line that says something
LEAST_WORDS = 2
_LONG_WORD = re.compile(r"[^\W\d_]{3,}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Words that lines of any program consist of.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "and any args assert async await bool break case catch char class code console const continue data "
        "def default defer del dict double elif else end enum err error errors except exec export extends "
        "extern false finally float fmt for from func function get global goto http https if impl import in "
        "include init int interface is item items key kwargs lambda len let list log long map match mod "
        "module mut name new nil none not null number object of okay or override package pass print private "
        "protected pub public raise range require res result ret return self set short static std str string "
        "struct super switch test then this throw throws true try type typeof undefined unless until use "
        "using val value values var void when where while with yield div span",
    )
)

_FIELDS = "%x01%H%x02%ct%x02%at%x02%an%x02%P%x02%s"
_PATCH = ("--no-color", "--no-ext-diff", "--no-textconv", "-p", "-U0", "-w", f"--format={_FIELDS}")
_BLAMED = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)")
_FILE_AND_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d{1,9})(?::\d+)?:?")
_HUNK = re.compile(rb"@@ -\S+ \+(\d+)")
# What a commit names as its origin: a checkpoint, whose metadata is on a branch of its own.
_CHECKPOINT = re.compile(r"^[\s*-]*Entire-Checkpoint:\s*([0-9a-f]{12})\s*$", re.MULTILINE)
_CHECKPOINTS = ("refs/heads/entire/checkpoints/v1", "refs/remotes/*/entire/checkpoints/v1")
_KEY = re.compile(r"(?:\d{4}-\d\d-\d\d-)?([\w.-]{8,100})")  # a tool's id of a session, perhaps behind a date
LARGEST_METADATA = 1 << 16  # bytes
MOST_METADATA = 20  # of one checkpoint
_PULL = re.compile(r"(?:#|https?://\S+/pulls?/)(\d{1,9})(?:[/?#]\S*)?")
MOST_COMMITS = 100  # of a pull request or a merge
LONGEST_LINE = 2_000  # characters of a line that are compared
LARGEST = 32 << 20  # bytes of a file that git does not know


def normalised(line: str) -> str:
    """Return a line without white space: formatters change that."""
    return "".join(line.split())


def is_distinctive(line: str) -> bool:
    """Whether a line is evidence by itself: `}` and `return None` are in every file."""
    if sum(map(str.isalnum, line)) < LEAST_CHARACTERS:
        return False
    words = {word.lower() for word in _LONG_WORD.findall(_CAMEL.sub(" ", line))} - _COMMON
    # A script without spaces has one long word per phrase.
    return len(words) >= LEAST_WORDS or (not line.isascii() and bool(words))


def lines_of(text: str) -> Counter[str]:
    """Return how often each line occurs in a text, without white space and empty lines."""
    return Counter(filter(None, map(normalised, text.splitlines())))


class _Checkpoint(msgspec.Struct):
    """The metadata of a checkpoint, which somebody else has written."""

    checkpoint_id: str
    session_id: str


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit; `time` is when it was made first, in seconds, `made` when it was amended or rebased last."""

    sha: str
    time: float
    made: float = 0.0
    author: str = ""
    subject: str = ""
    parents: int = 1


class BlamedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file as it is now, and the commit that it comes from; None if it is not committed yet."""

    number: int
    text: str
    path: str  # the file's name in that commit
    commit: Commit | None = None


class Addition(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a commit added to a file."""

    commit: Commit
    path: str
    number: int
    text: str


class GitHistory:
    """The history of the repository that a path is in."""

    def __init__(self, top: str) -> None:
        self.top = top
        self._git = Git(top)

    def blame(self, path: str, first: int = 0, last: int = 0) -> list[BlamedLine]:
        """Return the lines of a file in the work tree from number `first` to `last` (0: all)."""
        between = ("-L", f"{first},{last}") if first else ()
        shown = self._git.reading("blame", "--porcelain", "-w", "-M", "--no-textconv", *between, "--", path)
        return list(_blamed(shown)) if shown is not None else self._uncommitted(path, first, last)

    def _uncommitted(self, path: str, first: int, last: int) -> list[BlamedLine]:
        """Return the lines of a file that git does not know."""
        try:
            lines = durable.read_file(os.path.join(self.top, path), LARGEST).decode("utf-8", "replace").splitlines()
        except FileNotFoundError as error:
            raise NotFound(
                f"{path} does not exist", hint="name a file that exists; --commit asks about a commit"
            ) from error
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {error.strerror}") from error
        found = [BlamedLine(number=number, text=text, path=path) for number, text in enumerate(lines, 1)]
        return found[first - 1 : last] if first else found

    def names(self, path: str) -> list[str]:
        """Return the names that a file had, the present one first."""
        shown = self._git.reading("log", "--follow", "--name-only", "-z", "--format=", "--diff-filter=AR", "--", path)
        earlier = (shown or b"").decode("utf-8", "surrogateescape").split("\0")
        return list(dict.fromkeys([path, *(name.strip("\n") for name in earlier if name.strip("\n"))]))

    def additions(self, paths: Sequence[str], revision: str = "HEAD") -> Iterator[Addition]:
        """Yield every line that a commit up to this one added to these files, the newest commit first."""
        words = ("log", *_PATCH, "--no-renames", revision, "--", *paths)
        return _added(self._git.reading(*words) or b"")

    def commit(self, revision: str) -> tuple[Commit, list[Addition]]:
        """Return a commit and the lines that it added. Raises NotFound, or UsageError if it is a merge."""
        sha = self._resolved(revision)
        shown = self._git.reading("show", *_PATCH, "-M", sha) or b""
        commit = _commit(shown.partition(b"\n")[0].lstrip(b"\x01"))
        if commit.parents > 1:
            hint = f"ask for one of its commits: `git log {sha[:10]}^1..{sha[:10]}` lists them"
            raise UsageError(f"{revision} is a merge, which adds no lines of its own", hint=hint)
        return commit, list(_added(shown))

    def renames(self, sha: str) -> dict[str, str]:
        """Return the earlier name of each file that a commit renamed."""
        words = ("show", "--format=", "--name-status", "-M", "--diff-filter=R", "-z", sha)
        names = (self._git.reading(*words) or b"").decode("utf-8", "surrogateescape").split("\0")
        return dict(zip(names[2::3], names[1::3], strict=False))

    def _resolved(self, revision: str) -> str:
        words = ("rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")
        sha = (self._git.reading(*words) or b"").decode("ascii", "replace").strip()
        if not sha:
            raise NotFound(f"no commit is named {revision!r}", hint="use a hash or a name that `git log` shows")
        return sha

    def commits_of(self, name: str) -> list[str]:
        """Return the commits behind a commit, a merge, or a pull request (`#139`, or its address), the newest first.

        Of a merge these are the commits that it brought. Raises NotFound.
        """
        pull = _PULL.fullmatch(name.strip())
        tops = self._of_pull(pull[1]) if pull else [self._resolved(name)]
        if pull and not tops:
            hint = "fetch the branch that it was merged into, or name a commit that `git log` shows"
            raise NotFound(f"no commit here names pull request #{pull[1]}", hint=hint)
        found: list[str] = []
        for sha in tops:
            words = ("rev-list", "--no-merges", f"--max-count={MOST_COMMITS}", sha, f"^{sha}^1", "--")
            found += (self._git.reading(*words) or sha.encode()).decode("ascii", "replace").split()
        return list(dict.fromkeys(found))[:MOST_COMMITS]

    def _of_pull(self, number: str) -> list[str]:
        """Return the commits of any branch that name a pull request as what they are: squashed, or its merge."""
        merge = f"Merge pull request #{number} "
        words = ("log", "--all", "-F", f"--grep=(#{number})", f"--grep={merge}", "--format=%H %s")
        lines = (self._git.reading(*words) or b"").decode("utf-8", "replace").splitlines()
        named = (line.partition(" ") for line in lines)
        # "Take back … (#139) (#150)" is number 150.
        return [sha for sha, _, said in named if said.rstrip().endswith(f"(#{number})") or said.startswith(merge)]

    def sessions_named(self, commits: Sequence[str]) -> list[str]:
        """Return the AI tools' ids of the sessions that these commits name in an `Entire-Checkpoint` trailer."""
        shown = self._git.reading("log", "--no-walk=unsorted", "--format=%B", *commits, "--") if commits else b""
        names = dict.fromkeys(_CHECKPOINT.findall((shown or b"").decode("utf-8", "replace")))
        if not names:
            return []
        refs = (self._git.reading("for-each-ref", "--format=%(refname)", *_CHECKPOINTS) or b"").decode().split()
        keys = [key for name in list(names)[:MOST_COMMITS] for ref in refs for key in self._sessions_in(ref, name)]
        return list(dict.fromkeys(keys))

    def _sessions_in(self, ref: str, name: str) -> Iterator[str]:
        """Yield the sessions of a checkpoint, from its metadata on a branch. What is not as expected is no evidence."""
        listed = (
            self._git.reading("ls-tree", "-r", "-l", "-z", "--full-tree", ref, "--", f"{name[:2]}/{name[2:]}/") or b""
        )
        metadata = [line for line in listed.split(b"\0") if line.endswith(b"/metadata.json")]
        for line in metadata[:MOST_METADATA]:
            mode, _, sha, size = line.partition(b"\t")[0].split()
            if mode != b"100644" or not size.isdigit() or int(size) > LARGEST_METADATA:
                continue
            try:
                found = msgspec.json.decode(
                    self._git.reading("cat-file", "blob", sha.decode("ascii")) or b"", type=_Checkpoint
                )
            except (msgspec.DecodeError, RecursionError):
                continue
            key = _KEY.fullmatch(found.session_id)
            if found.checkpoint_id == name and key:
                yield key[1]


def locate(path: str) -> tuple[GitHistory, str]:
    """Return the history of the repository that a file or folder is in, and its path there.

    Raises NotFound if it is in none.
    """
    whole = os.path.abspath(os.path.expanduser(path))
    whole = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    top = top_of(whole)
    if not top:
        raise NotFound(f"{path} is in no git repository", hint="`cortext touched` also works without one")
    return GitHistory(top), os.path.relpath(whole, top)


def locate_inside(folder: str, file: str) -> tuple[GitHistory, str]:
    """Return the same for a file of the project that a folder is in. Raises UsageError if it is outside of that."""
    folder = os.path.realpath(folder)
    history, path = locate(os.path.join(folder, file))
    if not is_below(os.path.join(history.top, path), top_of(folder)) or path.startswith(os.pardir):
        raise UsageError(f"{file} is outside of this project", hint="name a file of the current project")
    return history, path


def line_of(text: str, folder: str = "") -> tuple[str, int]:
    """Split `FILE:LINE`, as compilers and grep print it, of a file in a folder; the line is 0 if there is none."""
    found = _FILE_AND_LINE.fullmatch(text)
    if found is None or os.path.lexists(os.path.join(folder, text)):
        return text, 0
    if not int(found["line"]):
        raise UsageError(f"invalid line number in {text!r}", hint="lines are counted from 1")
    return found["file"], int(found["line"])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")[:LONGEST_LINE]


def _commit(raw: bytes) -> Commit:
    fields = [*raw.decode("utf-8", "replace").split("\x02"), "", "", "", "", "", ""]
    sha, made, time, author, parents, subject = fields[:6]
    return Commit(
        sha=sha,
        time=float(time or 0),
        made=float(made or 0),
        author=author,
        subject=subject,
        parents=len(parents.split()),
    )


def _blamed(shown: bytes) -> Iterator[BlamedLine]:
    known: dict[bytes, dict[bytes, bytes]] = {}
    sha, number = b"", 0
    for raw in shown.split(b"\n"):
        if raw.startswith(b"\t"):
            facts = known[sha]
            committed = sha.strip(b"0")
            yield BlamedLine(
                number=number,
                text=_text(raw[1:]),
                path=facts.get(b"filename", b"").decode("utf-8", "surrogateescape"),
                commit=_blamed_commit(sha, facts) if committed else None,
            )
        elif header := _BLAMED.match(raw):
            sha, number = header[1], int(header[3])
            known.setdefault(sha, {})
        elif raw:
            name, _, value = raw.partition(b" ")
            known[sha][name] = value


def _blamed_commit(sha: bytes, facts: dict[bytes, bytes]) -> Commit:
    return Commit(
        sha=sha.decode("ascii"),
        time=float(facts.get(b"author-time", b"0")),
        made=float(facts.get(b"committer-time", b"0")),
        author=facts.get(b"author", b"").decode("utf-8", "replace"),
        subject=facts.get(b"summary", b"").decode("utf-8", "replace"),
    )


def _added(shown: bytes) -> Iterator[Addition]:
    commit, path, number = Commit(sha="", time=0.0), "", 0
    in_hunk = False
    for raw in shown.split(b"\n"):
        if raw.startswith(b"\x01"):
            commit, in_hunk = _commit(raw[1:]), False
        elif raw.startswith(b"diff --git "):
            in_hunk = False
        elif not in_hunk and raw.startswith(b"+++ "):
            path = _unquoted(raw[4:]).removeprefix("b/")
        elif hunk := _HUNK.match(raw):
            number, in_hunk = int(hunk[1]), True
        elif in_hunk and raw.startswith(b"+"):
            text = _text(raw[1:])
            if normalised(text):
                yield Addition(commit=commit, path=path, number=number, text=text)
            number += 1


def _unquoted(name: bytes) -> str:
    """Return a name as git prints it in a diff: in quotes and escaped if it is unusual."""
    name = name.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = name[1:-1].decode("ascii", "replace").encode().decode("unicode_escape").encode("latin-1", "replace")
    return name.decode("utf-8", "surrogateescape")


def commit_json(commit: Commit | None) -> Json | None:
    """Return a commit; None for lines that are not committed."""
    if commit is None:
        return None
    date = clock.from_epoch(commit.time)
    return {"sha": commit.sha, "author": commit.author, "date": date, "subject": commit.subject}
