"""Whether `cortext why` names the right conversation, on a repository that publishes its transcripts."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench.common import at_home, home_environment, parser_of, print_table, spread, work_folder
from cortext.errors import CortextError
from cortext.index.search.words import searchable, words_of
from cortext.model.query import Query
from cortext.services.library.search import Search
from cortext.services.origin.history import GitHistory, is_distinctive
from cortext.services.origin.session_edits import EditSource
from cortext.services.origin.why import HIGH, LOW, MEDIUM, LineOrigin, Why
from cortext.wiring.stores import Stores

BRANCH = "entire/checkpoints/v1"
TRAILER = "%(trailers:key=Entire-Checkpoint,valueonly,separator=%x2C)"
DATED = re.compile(r"\d{4}-\d\d-\d\d-")
PERSON = "A Person"
NOUNS = ("ledger", "harbour", "meadow", "lantern", "quarry", "cinder", "orchard", "saddle", "thimble", "walnut")


class Publication(NamedTuple):
    """The conversations of each commit that has any (None: no trailer), and those whose transcripts were written."""

    sessions: dict[str, set[str] | None]
    authors: dict[str, str]
    present: set[str]


def git(folder: str, *words: str, env: dict[str, str] | None = None) -> str:
    """Run git; return what it prints."""
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, check=True, env=env)
    return done.stdout.decode("utf-8", "replace")


def publish(repository: str, target: str) -> Publication:
    """Write the longest version of every transcript into a folder; return which commit came from which."""
    blobs = {}
    for line in git(repository, "ls-tree", "-r", "-l", BRANCH).splitlines():
        listed, path = line.split("\t")
        _, _, name, length = listed.split()
        blobs[path] = (name, int(length) if length.isdigit() else -1)  # the largest may be missing in a snapshot

    def contents(sha: str) -> bytes:
        done = subprocess.run(["git", "-C", repository, "cat-file", "blob", sha], capture_output=True, check=True)
        return done.stdout

    longest: dict[str, tuple[int, str]] = {}
    checkpoints: dict[str, set[str]] = {}
    for path, (sha, size) in blobs.items():
        if os.path.basename(path) == "full.jsonl":
            facts = json.loads(contents(blobs[f"{os.path.dirname(path)}/metadata.json"][0]))
            session = DATED.sub("", facts["session_id"])
            checkpoints.setdefault(facts["checkpoint_id"], set()).add(session)
            longest[session] = max(longest.get(session, (-1, "")), (size, sha))
    os.makedirs(target, exist_ok=True)
    present = set()
    for session, (size, sha) in longest.items():
        text = contents(sha) if size >= 0 else b""
        if b'"sessionId"' in text[:200_000] and b"\n{" in text[:200_000]:  # else of another tool, in one document
            with open(os.path.join(target, f"{session}.jsonl"), "wb") as file:
                file.write(text)
            present.add(session)
    sessions: dict[str, set[str] | None] = {}
    authors: dict[str, str] = {}
    for line in git(repository, "log", "--all", f"--format=%H%x02%an%x02{TRAILER}").splitlines():
        commit, author, named = line.split("\x02")
        ids = [one.strip() for one in named.split(",") if one.strip()]
        authors[commit] = author
        sessions[commit] = set().union(*(checkpoints.get(one, set()) for one in ids)) if ids else None
    return Publication(sessions, authors, present)


def run_why() -> None:
    """How often `cortext why` names the right conversation, on a repository that publishes which one each commit came
    from.

    python -m bench why REPOSITORY [--files 300] [--commits 150] [--people 40] [--keep DIR]

    REPOSITORY is a git directory as `bench published` describes it. Its transcripts are imported into an empty home,
    and every line of the files is asked for. An answer is right if it names a conversation of the commit that git
    blames for the line. Lines of commits without a trailer cannot be judged, and are counted apart.

    Negative controls: the commits of bots; and commits of a person that the benchmark adds itself: new lines, committed
    while a conversation was changing the very same file; and lines typed again that an agent had written there before.
    """
    options = parser_of(run_why)
    options.add_argument("repository")
    options.add_argument("--files", type=int, default=300)
    options.add_argument("--commits", type=int, default=150)
    options.add_argument("--people", type=int, default=40, help="files to which a person adds lines")
    options.add_argument("--keep", help="a folder in which the import is kept for the next run")
    given = options.parse_args()
    with kept_folder(given.keep) as folder:
        home, clone = os.path.join(folder, "home"), os.path.join(folder, "clone")
        published = imported(given.repository, folder, home)
        subprocess.run(["rm", "-rf", clone], check=True)
        git(folder, "clone", "-q", "--shared", given.repository, clone)
        # Else the trailers, by which the answers are judged, would be evidence for them.
        git(clone, "update-ref", "-d", f"refs/remotes/origin/{BRANCH}")
        with at_home(home):
            measure(clone, published, given.files, given.commits, given.people)


def imported(repository: str, folder: str, home: str) -> Publication:
    """Import the published transcripts into a home, unless an earlier run did."""
    published = publish(repository, os.path.join(folder, "transcripts"))
    if not os.path.isdir(home):
        os.makedirs(home)
        program = [os.path.join(os.path.dirname(sys.executable), "cortext")]
        for words in (["import", os.path.join(folder, "transcripts")], ["search", "--exact", "anything"]):
            subprocess.run([*program, *words], env=home_environment(home), capture_output=True, check=False)
    return published


def run_things() -> None:
    """Whether search finds what is there word for word, and names what is not, on the same published transcripts.

    python -m bench things REPOSITORY [--things bench/things.json] [--keep DIR]

    The file has errors, which are asked for as they were printed, without quotes, things that are there, and things
    that are nowhere. A hit is right if its message has the words in a row.
    """
    options = parser_of(run_things)
    options.add_argument("repository")
    options.add_argument("--things", default=os.path.join(os.path.dirname(__file__), "things.json"))
    options.add_argument("--keep", help="a folder in which the import is kept for the next run")
    given = options.parse_args()
    with open(given.things, encoding="utf-8") as file:
        things: dict[str, list[str]] = json.load(file)
    with kept_folder(given.keep) as folder:
        home = os.path.join(folder, "home")
        imported(given.repository, folder, home)
        with at_home(home):
            search = Stores(home).search()
            search.refresh(patient=True)
            rows = [_found(search, kind, things[kind]) for kind in ("errors", "present", "absent")]
    print_table(("kind", "asked", "first", "in five", "named as absent"), rows)


def _found(search: Search, kind: str, things: Sequence[str]) -> tuple[str, ...]:
    """Return how many things were found first and among five, and of how many it was said that they occur nowhere."""
    first = five = absent = 0
    for thing in things:
        answer = search.messages(Query(thing, limit=5), fresh=False)
        rows = [search.listing.message(hit.session, hit.matches[0].seq) for hit in answer.hits]
        right = [_row(thing) in _row(searchable(message)) for message in rows if message is not None]
        first += right[:1] == [True]
        five += any(right)
        absent += bool(answer.absent)
        print(kind, right, list(answer.absent), thing, file=sys.stderr)
    return kind, *map(str, (len(things), first, five, absent))


def _row(text: str) -> str:
    return f" {' '.join(words_of(text.lower()))} "


@contextmanager
def kept_folder(folder: str | None) -> Iterator[str]:
    """Use this folder, or an empty one that is deleted afterwards."""
    if folder:
        os.makedirs(folder, exist_ok=True)
        yield folder
    else:
        with work_folder() as made:
            yield made


def asking(clone: str) -> tuple[Why, EditSource]:
    """Return what answers questions about a repository."""
    stores = Stores(clone)
    search = stores.search()
    search.refresh()
    library = EditSource(stores.listing(), lambda: search)
    return Why(library, GitHistory(clone)), library


def measure(clone: str, published: Publication, files: int, commits: int, people: int) -> None:
    """Ask for every line of these many files, and for these many commits."""
    generator = random.Random(1)
    paths = sorted(git(clone, "ls-files").splitlines())
    generator.shuffle(paths)
    why, library = asking(clone)
    library.expect(paths)  # every conversation is read once for all questions
    counts: Counter[tuple[str, str]] = Counter()
    agents: dict[str, list[LineOrigin]] = {}
    for path in paths[:files]:
        for item in _lines(why, path):
            if not item.line.text.strip() or item.line.commit is None:
                continue
            kind = _kind(item, published)
            counts[kind, item.origin.confidence or "none"] += 1
            if kind == "right" and item.origin.confidence == HIGH and is_distinctive(item.line.text):
                agents.setdefault(path, []).append(item)
    _print_lines(counts)
    _print_commits(why, clone, published, commits, generator)
    _print_people(clone, why, agents, people, generator)
    _print_times(clone, agents, generator)


def _lines(why: Why, path: str) -> list[LineOrigin]:
    try:
        return why.lines(path)
    except CortextError:  # a link
        return []


def _kind(item: LineOrigin, published: Publication) -> str:
    assert item.line.commit is not None
    known = published.sessions.get(item.line.commit.sha)
    if known is None:
        bot = "[bot]" in published.authors.get(item.line.commit.sha, "")
        return "of a bot" if bot else "without a trailer"
    if not known & published.present:
        return "transcript missing"
    if item.origin.row is None:
        return "not found"
    return "right" if item.origin.row.id.partition("-")[2] in known else "wrong"


def _print_lines(counts: Counter[tuple[str, str]]) -> None:
    print("Lines, by the confidence of the answer\n")
    levels = (HIGH, MEDIUM, LOW, "none")
    kinds = ("right", "wrong", "not found", "of a bot", "without a trailer", "transcript missing")
    print_table(("", *levels), [(kind, *(str(counts[kind, level]) for level in levels)) for kind in kinds])
    for names in ((HIGH,), (HIGH, MEDIUM), (HIGH, MEDIUM, LOW)):
        right, wrong = (sum(counts[kind, level] for level in names) for kind in ("right", "wrong"))
        judged = sum(count for (kind, _), count in counts.items() if kind in ("right", "wrong", "not found"))
        share, found = right / max(1, right + wrong), right / max(1, judged)
        print(f"{' and '.join(names)}: precision {share:.1%}, recall {found:.1%} of {judged} lines")
    print()


def _print_commits(why: Why, clone: str, published: Publication, most: int, generator: random.Random) -> None:
    known = git(clone, "log", "--no-merges", "--format=%H").split()
    judged = [sha for sha in known if (published.sessions.get(sha) or set()) & published.present]
    bots = [sha for sha in known if "[bot]" in published.authors.get(sha, "")]
    generator.shuffle(judged)
    right = wrong = silent = 0
    for sha in judged[:most]:
        found = why.commit(sha)
        if not found.origins or found.origins[0].row is None:
            silent += 1
        elif found.origins[0].row.id.partition("-")[2] in (published.sessions[sha] or set()):
            right += 1
        else:
            wrong += 1
    claimed = sum(bool(why.commit(sha).origins) for sha in bots)
    print(
        f"Commits: {right} right, {wrong} wrong, {silent} without an answer: precision "
        f"{right / max(1, right + wrong):.1%}, recall {right / max(1, right + wrong + silent):.1%}; "
        f"of {len(bots)} commits by bots, {claimed} attributed\n"
    )


def _print_people(
    clone: str, why: Why, agents: dict[str, list[LineOrigin]], most: int, generator: random.Random
) -> None:
    """Add commits of a person to the clone, and print how many of their lines are attributed to an agent."""
    chosen = sorted(agents)[:most]
    added: dict[str, tuple[int, list[str], list[str]]] = {}
    for path in chosen:
        with open(os.path.join(clone, path), encoding="utf-8") as file:
            before = file.read()
        new = [f"// {' '.join(generator.choices(NOUNS, k=5))} {generator.random():.6f}" for _ in range(8)]
        typed = [item.line.text for item in generator.sample(agents[path], min(4, len(agents[path])))]
        with open(os.path.join(clone, path), "a", encoding="utf-8") as file:
            file.write(("" if before.endswith("\n") else "\n") + "\n".join([*new, *typed]) + "\n")
        added[path] = (len(before.splitlines()), new, typed)
        # While a conversation was changing this file: right after the commit that it led to.
        commit = agents[path][0].line.commit
        assert commit is not None
        when = f"{int(commit.time) + 1} +0000"
        env = {**os.environ, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        for name in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{name}_NAME": PERSON, f"GIT_{name}_EMAIL": "person@example.com"}
        git(clone, "commit", "-q", "-m", "By a person", "--", path, env=env)
    claimed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for path, (start, new, typed) in added.items():
        lines = why.lines(path)[start:]
        for number, item in enumerate(lines):
            kind = "new lines" if number < len(new) else "lines typed again"
            if item.line.commit is None or item.line.commit.author != PERSON:
                continue  # git blames the commit that had this line first
            total[kind] += 1
            claimed[kind] += item.origin.confidence in (HIGH, MEDIUM)
        assert len(lines) == len(new) + len(typed)
    shares = ", ".join(f"{claimed[kind]} of {total[kind]} {kind}" for kind in total)
    print(f"Commits of a person: {shares} attributed to an agent\n")


def _print_times(clone: str, agents: dict[str, list[LineOrigin]], generator: random.Random) -> None:
    seconds, read = [], []
    for path in generator.sample(sorted(agents), min(20, len(agents))):
        why, library = asking(clone)
        begin = time.process_time()
        why.line(path, generator.choice(agents[path]).line.number)
        seconds.append(time.process_time() - begin)
        read.append(float(library.sessions_read()))
    print(f"One line, processor seconds without git: {spread(seconds).show()}; conversations read: ", end="")
    print(spread(read).show("{:.0f}"))
