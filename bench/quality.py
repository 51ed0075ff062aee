"""Search quality: finding the turns of long conversations that answer a question (data in LoCoMo's format).

python -m bench.quality PATH

PATH is a JSON list of conversations: `turns` (id, session, speaker, text) and `queries` (question, gold turn ids). Each
conversation becomes a workspace, each of its sessions a session, and every question is asked in its own workspace with
the product's own search. Reported: recall of the gold turns among the first 5 and 10 messages, and the share of them
in a packet of 2,000 and 4,000 tokens of the best messages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from contextlib import nullcontext
from typing import Any
from unittest import mock

from bench.common import print_table, work_folder
from bench.faces import at_home
from cortext.model import tokens
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.library.search import Search
from cortext.services.workspace.known import remember_workspace
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores

DEEP = 160  # messages requested: enough for the largest packet
BUDGETS = (2_000, 4_000)
PACKET = 4_000  # tokens asked for in one packet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    options = parser.parse_args()
    with open(options.path, encoding="utf-8") as file:
        data: list[dict[str, Any]] = json.load(file)
    with work_folder() as base:
        home = os.path.join(base, "home")
        os.mkdir(home)
        with at_home(home):
            turns_by_workspace = fill(base, data)
            search = Stores(home).search()
            begin = time.perf_counter()
            search.refresh(patient=True)
            print(f"indexed in {time.perf_counter() - begin:.1f} s", file=sys.stderr)
            rows = [
                (name, *measured(search, data, turns_by_workspace, exact=exact, plain=plain))
                for name, exact, plain in (
                    ("words, BM25 alone", True, True),
                    ("words, scored with their neighbours (--exact)", True, False),
                    ("words and meaning, with neighbours", False, False),
                )
            ]
    heads = ("ranking", "recall@5", "recall@10", *(f"in {budget:,} tokens" for budget in BUDGETS), "ms, p50", "p95")
    print_table(heads, rows)


def fill(base: str, data: list[dict[str, Any]]) -> dict[str, dict[tuple[str, int], str]]:
    """Create a workspace per conversation; return the turn of each message, by workspace."""
    turns_by_workspace: dict[str, dict[tuple[str, int], str]] = {}
    for conversation in data:
        root = os.path.join(base, conversation["id"])
        os.makedirs(os.path.join(root, ".workspace"))
        remember_workspace(root)
        store = WorkspaceStore(root)
        turns: dict[str, list[dict[str, str]]] = {}
        for turn in conversation["turns"]:
            turns.setdefault(turn["session"], []).append(turn)
        first = conversation["turns"][0]["speaker"]
        turn_ids: dict[tuple[str, int], str] = {}
        with mock.patch("os.fsync"):
            for name, said in turns.items():
                session_id = re.sub(r"[^a-z0-9]+", "-", name.lower())
                store.create(Session(id=session_id))
                store.append(session_id, *(_message(turn, first) for turn in said))
                turn_ids.update({(session_id, number): turn["id"] for number, turn in enumerate(said)})
        turns_by_workspace[root] = turn_ids
    return turns_by_workspace


def _message(turn: dict[str, str], first: str) -> Message:
    role = "user" if turn["speaker"] == first else "assistant"
    return Message(role=role, content=f"{turn['speaker']}: {turn['text']}")


def measured(
    search: Search,
    data: list[dict[str, Any]],
    turns_by_workspace: dict[str, dict[tuple[str, int], str]],
    *,
    exact: bool,
    plain: bool,
) -> list[str]:
    """Return the means over all questions."""
    found: list[list[float]] = []
    seconds: list[float] = []
    for conversation, (root, turn_ids) in zip(data, turns_by_workspace.items(), strict=True):
        for question in conversation["queries"]:
            gold = set(question["gold"])
            begin = time.perf_counter()
            hits = ask(search, question["question"], root, exact=exact, plain=plain)
            seconds.append(time.perf_counter() - begin)
            ranked = [turn_ids[key] for key, _ in hits]
            row = [len(gold & set(ranked[:top])) / len(gold) for top in (5, 10)]
            for budget in BUDGETS:
                held, used = set(), 0
                for turn, (_, size) in zip(ranked, hits, strict=True):
                    used += size
                    if used > budget:
                        break
                    held.add(turn)
                row.append(len(gold & held) / len(gold))
            found.append(row)
    seconds.sort()
    means = [f"{sum(column) / len(found):.3f}" for column in zip(*found, strict=True)]
    return [*means, f"{seconds[len(seconds) // 2] * 1000:.1f}", f"{seconds[len(seconds) * 19 // 20] * 1000:.1f}"]


def ask(search: Search, question: str, root: str, *, exact: bool, plain: bool) -> list[tuple[tuple[str, int], int]]:
    """Return (session, number) and tokens of the messages found, best first."""
    alone = mock.patch.multiple("cortext.index.search.fuse", BESIDE=(), USER=1.0, SESSION=0.0)
    with alone if plain else nullcontext():
        found = search.messages(question, filters={"workspace": root}, limit=DEEP, exact=exact, fresh=False)
    hits = []
    for item in found:
        match = item.matches[0]
        hits.append(((item.session.id, match.seq), _size(item.session.path, match.seq)))
    return hits


_sizes: dict[str, list[int]] = {}


def _size(path: str, seq: int) -> int:
    """Return the tokens of a message, read from its log."""
    if path not in _sizes:
        with open(os.path.join(path, ".session", "messages.jsonl"), encoding="utf-8") as file:
            _sizes[path] = [tokens.estimate(json.loads(line)["content"]) for line in file]
    return _sizes[path][seq]


if __name__ == "__main__":
    main()
