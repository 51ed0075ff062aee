"""What a search finds first, by kind of conversation: the sets of questions, and the measurement."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from bench.common import at_home, parser_of, print_table, work_folder
from cortext.faces.mcp.context import Context
from cortext.faces.mcp.tools import call
from cortext.model import tokens
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.services.library.search import Search
from cortext.services.projects.workspaces import remember_workspace
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores

SEED = "2026"
TEST_SHARE = 0.3
TRAIN, TEST = "train", "test"
Place = tuple[str, int]  # session, and number of the message in it; -1 stands for the whole session
BUDGET = 2_000
DEEP = 80  # messages requested: enough for that many tokens
SHORT = 120  # messages: sets of conversations that are shorter on average are also asked all in one
RESAMPLED = 1_000
Found = list[Place]
Asking = Callable[[str, str], Found]  # question and workspace


class Question(NamedTuple):
    text: str
    gold: frozenset[Place]
    part: str
    source: str  # the conversation it was asked about: questions about one conversation are not independent


class Conversation(NamedTuple):
    """What a question is asked over: the sessions of one store."""

    name: str
    sessions: dict[str, list[Message]]
    questions: list[Question]


class QuestionSet(NamedTuple):
    name: str
    conversations: list[Conversation]

    @property
    def is_trainable(self) -> bool:
        """Whether it may be trained on: a set in LoCoMo's format is only measured."""
        return any(question.part == TRAIN for one in self.conversations for question in one.questions)

    def sample(self, most: int) -> QuestionSet:
        """Return the set with at most so many questions of the test part, always the same ones."""
        asked = [question for one in self.conversations for question in one.questions if question.part == TEST]
        random.Random(SEED).shuffle(asked)
        kept = {id(question) for question in asked[:most]}
        conversations = [
            one._replace(questions=[question for question in one.questions if id(question) in kept])
            for one in self.conversations
        ]
        return QuestionSet(self.name, [one for one in conversations if one.questions])

    def pooled(self, part: str) -> QuestionSet:
        """Return one part of the set as a single store, in which every question is asked over all conversations."""
        questions = [question for one in self.conversations for question in one.questions if question.part == part]
        sources = {question.source for question in questions}
        sessions = {
            name: said for one in self.conversations if one.name in sources for name, said in one.sessions.items()
        }
        return QuestionSet(f"{self.name}, all in one", [Conversation("pool", sessions, questions)])


def part_of(text: str) -> str:
    """Return the part that a conversation belongs to, by a text that identifies it."""
    number = int.from_bytes(hashlib.sha256(f"{SEED} {text}".encode()).digest()[:4], "big")
    return TEST if number < TEST_SHARE * 2**32 else TRAIN


def read_set(path: str) -> QuestionSet:
    """Read a set; its name is that of the file."""
    name = os.path.basename(path).split(".")[0]
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        if ".jsonl" not in path:
            return QuestionSet(name, [_locomo(one) for one in json.load(file)])
        rows: list[dict[str, Any]] = [json.loads(line) for line in file]
    if any("gold_sessions" in question for row in rows for question in row["questions"]):
        return QuestionSet(name, [_sessions(name, rows)])
    return QuestionSet(name, [_conversation(f"{name}-{number}", row) for number, row in enumerate(rows)])


def with_queries(questions: QuestionSet, path: str) -> QuestionSet:
    """Return the sessions of a set with other questions: a JSON list of [query, [beginnings of session ids]]."""
    (one,) = questions.conversations
    with open(path, encoding="utf-8") as file:
        asked: list[tuple[str, list[str]]] = json.load(file)
    found = []
    for text, names in asked:
        beginnings = tuple(_identifier(name) for name in names)
        gold = frozenset((session, -1) for session in one.sessions if session.startswith(beginnings))
        if not gold:
            raise SystemExit(f"no session for {text!r}")
        found.append(Question(text, gold, TEST, text))
    return QuestionSet(f"{os.path.basename(path)} over {questions.name}", [one._replace(questions=found)])


def _locomo(row: dict[str, Any]) -> Conversation:
    turns: dict[str, list[dict[str, str]]] = {}
    for turn in row["turns"]:
        turns.setdefault(_identifier(turn["session"]), []).append(turn)
    first = row["turns"][0]["speaker"]
    places = {turn["id"]: (name, number) for name, said in turns.items() for number, turn in enumerate(said)}
    questions = [
        Question(one["question"], frozenset(places[turn] for turn in one["gold"]), TEST, row["id"])
        for one in row["queries"]
    ]
    sessions = {name: [_message(turn, first) for turn in said] for name, said in turns.items()}
    return Conversation(row["id"], sessions, questions)


def _conversation(name: str, row: dict[str, Any]) -> Conversation:
    """Return a line of a file as a conversation; it is named by its number, because ids may repeat."""
    part = part_of(row["turns"][0]["text"])
    numbers = {turn["id"]: number for number, turn in enumerate(row["turns"])}
    questions = [
        Question(one["question"], frozenset((name, numbers[turn]) for turn in one["gold"]), part, name)
        for one in row["questions"]
        if one["gold"]
    ]
    first = row["turns"][0]["speaker"]
    return Conversation(name, {name: [_message(turn, first) for turn in row["turns"]]}, questions)


def _sessions(kind: str, rows: Sequence[dict[str, Any]]) -> Conversation:
    sessions = {_identifier(row["id"]): [_message(turn) for turn in row["turns"]] for row in rows}
    asked: dict[str, frozenset[Place]] = {}
    for row in rows:
        for one in row["questions"]:
            if one["question"] and one["gold_sessions"]:
                asked[one["question"]] = frozenset((_identifier(name), -1) for name in one["gold_sessions"])
    questions = []
    for text, gold in asked.items():
        source = f"{kind}-{min(gold)[0]}"
        questions.append(Question(text, gold, part_of(source), source))
    return Conversation(kind, sessions, questions)


def _message(turn: dict[str, str], first: str = "") -> Message:
    """Return a turn as a message; with `first`, the speakers are people, of whom the first one counts as the user."""
    role = turn["speaker"] if not first else "user" if turn["speaker"] == first else "assistant"
    text = f"{turn['speaker']}: {turn['text']}" if first else turn["text"]
    return Message(role=role, content=text, timestamp=turn.get("time") or _timestamp(turn.get("date", "")))


def _timestamp(date: str) -> str:
    """Return a date of LoCoMo ("1:56 pm on 8 May, 2023") as a timestamp."""
    return datetime.strptime(date, "%I:%M %p on %d %B, %Y").strftime("%Y-%m-%dT%H:%M:00Z") if date else ""


def _identifier(text: object) -> str:
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower())


def store(base: str, conversations: Sequence[Conversation]) -> Iterator[tuple[str, Conversation]]:
    """Create a workspace per conversation and yield its folder."""
    for one in conversations:
        root = os.path.join(base, one.name)
        os.makedirs(os.path.join(root, ".workspace"))
        remember_workspace(root)
        made = WorkspaceStore(root)
        with mock.patch("os.fsync"):
            for session_id, messages in one.sessions.items():
                made.create(Session(id=session_id))
                made.append(session_id, *messages)
        yield root, one


def alone() -> AbstractContextManager[Any]:
    """BM25 and nothing else."""
    return mock.patch.multiple("cortext.index.search.fuse", BESIDE=(), USER=1.0, SESSION=0.0)


RANKINGS: dict[str, tuple[bool, Callable[[], AbstractContextManager[Any]]]] = {
    "BM25 alone": (True, alone),
    "--exact": (True, nullcontext),
    "default": (False, nullcontext),
}


def run_quality() -> None:
    """Search quality: finding the messages that answer a question, by kind of conversation.

    python -m bench quality PATH… [--rankings all] [--most N]
    python -m bench quality PATH --queries bench/queries.json   40 queries over real coding sessions
    python -m bench quality PATH… --context                     what an agent gets: get_context within 2,000 tokens

    PATH is a set of conversations (see `quality_sets`). Each conversation becomes a workspace, and every question of
    the test part is asked in its own workspace with the product's own search; short conversations are also asked all in
    one. Reported: the share of questions whose first message is right, recall of the right messages among the first 5
    and 10, and their share in the first 2,000 tokens; for sets that ask for a session, the share found first, and among
    the first 5 and 10. The intervals (95 %) are from resampling whole conversations.
    """
    parser = parser_of(run_quality)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--rankings", choices=("default", "all"), default="default")
    parser.add_argument("--context", action="store_true")
    parser.add_argument("--queries", metavar="FILE", help="ask these instead of the questions of the set")
    parser.add_argument("--most", type=int, default=1_000_000, help="ask only so many questions, chosen at random")
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    if options.context:
        for path in options.paths:
            rows.append(in_context(read_set(path).sample(options.most)))
        print_table(("set", "questions", f"evidence in get_context, {BUDGET:,} tokens", "tokens used, mean"), rows)
        return
    for path in options.paths:
        read = read_set(path)
        whole = with_queries(read, options.queries) if options.queries else read.sample(options.most)
        lengths = [len(said) for one in whole.conversations for said in one.sessions.values()]
        sets = [whole]
        if len(whole.conversations) > 1 and sum(lengths) / len(lengths) < SHORT and read.is_trainable:
            sets.append(whole.pooled(TEST))
        for one in sets:
            rows += measured(one, list(RANKINGS) if options.rankings == "all" else ["default"])
    print_table(
        ("set", "ranking", "questions", "first", "recall@5", "recall@10", f"in {BUDGET:,} tokens", "ms, p50", "p95"),
        rows,
    )


def measured(questions: QuestionSet, rankings: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a row per ranking."""
    rows = []
    with work_folder() as base:
        home = os.path.join(base, "home")
        os.mkdir(home)
        with at_home(home):
            tested = [one for one in questions.conversations if any(q.part == TEST for q in one.questions)]
            stores = list(store(base, tested))
            search = Stores(home).search()
            search.refresh(patient=True)
            for name in rankings:
                exact, patched = RANKINGS[name]
                with patched():
                    rows.append((questions.name, name, *_figures(search, stores, exact=exact)))
                print(*rows[-1], sep=" | ", file=sys.stderr)
    return rows


def _figures(search: Search, stores: Sequence[tuple[str, Conversation]], *, exact: bool) -> list[str]:
    found: list[list[float]] = []
    sources: list[str] = []
    seconds: list[float] = []
    for root, conversation in stores:
        for question in conversation.questions:
            if question.part != TEST:
                continue
            begin = time.perf_counter()
            hits = ask(search, question, root, exact=exact)
            seconds.append(time.perf_counter() - begin)
            found.append(_scores(hits, question, conversation))
            sources.append(question.source)
    seconds.sort()
    columns = [with_interval(column, sources) for column in zip(*found, strict=True)]
    times = [f"{seconds[len(seconds) * share // 100] * 1000:.1f}" for share in (50, 95)]
    return [str(len(found)), *columns, *times]


def ask(search: Search, question: Question, root: str, *, exact: bool, deep: int = DEEP) -> Found:
    """Return what was found, best first: messages, or sessions if the question asks for one."""
    filters = {"workspace": root}
    if asks_for_session(question):
        answer = search.search(Query(question.text, filters, limit=min(deep, 10), exact=exact), fresh=False)
        return [(item.session.id, -1) for item in answer.hits]
    answer = search.messages(Query(question.text, filters, limit=deep, exact=exact), fresh=False)
    return [(item.session.id, item.matches[0].seq) for item in answer.hits]


def in_context(questions: QuestionSet) -> tuple[str, ...]:
    """Return the share of the right messages that `get_context` returns, each conversation in a home of its own."""
    shares: list[float] = []
    sources: list[str] = []
    used: list[int] = []
    for conversation in questions.conversations:
        with work_folder() as base:
            home = os.path.join(base, "home")
            os.mkdir(home)
            with at_home(home), mock.patch.dict(os.environ, {"CORTEXT_MCP_TOKENS": str(BUDGET)}):
                ((root, _),) = store(base, [conversation])
                context = Context(root, lambda: None)
                for question in conversation.questions:
                    if question.part == TEST:
                        answer = call(context, "get_context", {"topic": question.text})
                        shares.append(len(question.gold & _passages(answer.data)) / len(question.gold))
                        sources.append(question.source)
                        used.append(tokens.estimate(answer.text))
    return questions.name, str(len(shares)), with_interval(shares, sources), f"{sum(used) / len(used):.0f}"


def _passages(data: dict[str, Any]) -> set[Place]:
    """Return the messages in an answer, the neighbours of passages among them."""
    found: set[Place] = set()
    for result in data["results"]:
        for passage in result["passages"]:
            steps = {0: "text", -1: "before", 1: "after"}
            found |= {
                (result["session"]["id"], passage["seq"] + step) for step, name in steps.items() if name in passage
            }
    return found


def asks_for_session(question: Question) -> bool:
    """Whether whole sessions are the answer."""
    return any(seq < 0 for _, seq in question.gold)


def _scores(hits: Found, question: Question, conversation: Conversation) -> list[float]:
    """Return whether the first is right, recall among the first 5 and 10, and recall within the budget."""
    gold = question.gold
    first = float(bool(hits) and hits[0] in gold)
    if asks_for_session(question):
        return [first, *(float(bool(gold & set(hits[:top]))) for top in (5, 10)), 0.0]
    held, used = set(), 0
    for session, seq in hits:
        used += tokens.estimate(conversation.sessions[session][seq].content)
        if used > BUDGET:
            break
        held.add((session, seq))
    return [first, *(len(gold & set(hits[:top])) / len(gold) for top in (5, 10)), len(gold & held) / len(gold)]


def with_interval(values: Sequence[float], sources: Sequence[str]) -> str:
    """Return the mean in percent, with the interval from resampling whole conversations."""
    _, group = np.unique(np.array(sources), return_inverse=True)
    count = int(np.max(group)) + 1
    sums, sizes = np.bincount(group, values, minlength=count), np.bincount(group, minlength=count)
    chosen = np.random.default_rng(0).integers(0, count, (RESAMPLED, count))
    means = sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{100 * sums.sum() / sizes.sum():.1f} ({100 * low:.1f}–{100 * high:.1f})"
