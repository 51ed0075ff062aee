"""Search quality: finding the messages that answer a question, by kind of conversation.

python -m bench.quality PATH… [--rankings all] [--most N]
python -m bench.quality PATH --queries bench/queries.json   40 queries over real coding sessions
python -m bench.quality PATH… --context                     what an agent gets: get_context within 2,000 tokens

PATH is a set of conversations (see `quality_sets`). Each conversation becomes a workspace, and every question of the
test part is asked in its own workspace with the product's own search; short conversations are also asked all in one.
Reported: the share of questions whose first message is right, recall of the right messages among the first 5 and 10,
and their share in the first 2,000 tokens; for sets that ask for a session, the share found first, and among the first 5
and 10. The intervals (95 %) are from resampling whole conversations.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

from bench.common import print_table, work_folder
from bench.faces import at_home
from bench.quality_sets import TEST, Conversation, Place, Question, QuestionSet, read_set, store, with_queries
from cortext.faces.mcp.context import Context
from cortext.faces.mcp.tools import call
from cortext.index.query import Query
from cortext.model import tokens
from cortext.services.library.search import Search
from cortext.wiring.stores import Stores

BUDGET = 2_000
DEEP = 80  # messages requested: enough for that many tokens
SHORT = 120  # messages: sets of conversations that are shorter on average are also asked all in one
RESAMPLED = 1_000

Found = list[Place]
Asking = Callable[[str, str], Found]  # question and workspace


def alone() -> AbstractContextManager[Any]:
    """BM25 and nothing else."""
    return mock.patch.multiple("cortext.index.search.fuse", BESIDE=(), USER=1.0, SESSION=0.0)


RANKINGS: dict[str, tuple[bool, Callable[[], AbstractContextManager[Any]]]] = {
    "BM25 alone": (True, alone),
    "--exact": (True, nullcontext),
    "default": (False, nullcontext),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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


if __name__ == "__main__":
    main()
