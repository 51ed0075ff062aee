"""What a packet keeps: how much of what is used after a cut is in the packet of what precedes it.

python -m bench.packet FOLDER… [--tokens 2000 4000 8000] [--half dev|held] [--json]

Every transcript of a known tool below the folders is cut where its tool compacted it, otherwise at half and three
quarters of the user's turns. Counted are the files, symbols and commands that the model used after the cut, up to the
next compaction, if they had occurred before it anywhere: in a message, a tool call or a result. Each share is the mean
over the conversations, with a bootstrap interval of 95 %. At compactions the tool's own summary is the baseline, and
"summary and digest" is what the model has if a hook gives it back what the summary dropped. `--half` takes one random
half of the conversations, so that the other stays aside. Below the table: what a digest lists and the conversation
never had as a whole word of its decoded text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from bench.common import print_table, work_folder
from bench.packet_use import Use, distinct_name, text_of, used_in
from bench.packet_words import violations
from cortext.model import tokens
from cortext.model.message import USER, Message, thread
from cortext.model.session import Session
from cortext.services.resume.facts import facts
from cortext.services.resume.history import History
from cortext.services.resume.packet import build
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.base import TranscriptSource
from cortext.tools.registry import load_all

SHARES = (0.5, 0.75)  # where a conversation is cut that its tool did not compact
LEAST_TURNS = 4  # a conversation with fewer turns of the user is cut by its messages
LEAST_MESSAGES = 12
ASKED = 160  # characters of the last ask that have to be in the packet
NOTICES = ("[Request interrupted", "Operation stopped", "<task-notification")  # what tools write in the user's name
RESAMPLES = 2_000
SHOWN = 20  # of what a digest states and the conversation never had
KINDS = ("files", "symbols", "commands", "last ask")


class Cut(NamedTuple):
    """A place in a conversation: what precedes it, what follows, and the tool's summary if it compacted there."""

    before: list[Message]
    after: list[Message]
    summary: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--tokens", nargs="+", type=int, default=[2_000, 4_000, 8_000])
    parser.add_argument("--half", choices=("dev", "held"), default="")
    parser.add_argument("--json", action="store_true", help="one JSON line per cut instead of the table")
    options = parser.parse_args()
    measured: list[dict[str, Any]] = []
    for path, tool in transcripts(options.folders):
        if options.half and half_of(path) != options.half:
            continue
        for number, cut in enumerate(cuts(tool, path)):
            row = {"conversation": os.path.basename(path), "cut": number, "compaction": bool(cut.summary)}
            measured.append(row | measure(cut, options.tokens))
            if options.json:
                print(json.dumps(measured[-1]), flush=True)
    if not measured:
        sys.exit("no conversation of a known tool is long enough")
    if not options.json:
        report(measured)


def transcripts(folders: Sequence[str]) -> Iterator[tuple[str, TranscriptSource]]:
    """Yield every file that a tool recognises as its transcript, in a fixed order."""
    tools = load_all()
    for folder in folders:
        paths = sorted(os.path.join(base, name) for base, _, names in os.walk(folder) for name in names)
        for path in paths:
            known = next((tool for tool in tools if tool.transcript_at(path) is not None), None)
            if known is not None:
                yield path, known


def half_of(path: str) -> str:
    """Return the half that a conversation belongs to: by its name, so that it is the same in every run."""
    return "dev" if hashlib.sha256(os.path.basename(path).encode()).digest()[0] % 2 else "held"


def cuts(tool: TranscriptSource, path: str) -> Iterator[Cut]:
    """Yield the cuts of a conversation: where the tool compacted it, otherwise by its turns."""
    transcript = tool.transcript_at(path)
    assert transcript is not None
    reading = tool.read(transcript)
    messages: list[Message] = []
    summaries: dict[str, str] = {}  # by the id of the first message after the compaction
    known = ""
    for message in reading:
        if reading.about.summary != known and not message.aside:
            known = summaries[message.id] = reading.about.summary
        messages.append(message)
    talk = [message for message in thread(messages) if message.content or message.parts]
    if len(talk) < LEAST_MESSAGES:
        return
    at = {index: summaries[message.id] for index, message in enumerate(talk) if index and message.id in summaries}
    if not at:
        turns = [index for index, message in enumerate(talk) if message.role == USER]
        candidates = turns if len(turns) >= LEAST_TURNS else list(range(len(talk)))
        at = {candidates[int(len(candidates) * share)]: "" for share in SHARES}
    ends = [*sorted(at)[1:], len(talk)] if any(at.values()) else [len(talk)] * len(at)
    for start, end in zip(sorted(at), ends, strict=True):
        yield Cut(talk[:start], talk[start:end], at[start])


def measure(cut: Cut, budgets: Sequence[int]) -> dict[str, Any]:
    """Return the shares that each packet has, and at a compaction those of the tool's own summary."""
    earlier = text_of(cut.before)
    names = {path: distinct_name(path, files) for files in [used_in([*cut.before, *cut.after]).files] for path in files}
    used = used_in(cut.after)
    wanted = Use(
        frozenset(names[path] for path in used.files if _has(earlier, names[path])),
        frozenset(symbol for symbol in used.symbols if _has(earlier, symbol)),
        frozenset(command for command in used.commands if command in earlier),
    )
    ask = last_ask(cut.before)
    result: dict[str, Any] = {
        "wanted": {kind: len(values) for kind, values in zip(KINDS, wanted, strict=False)},
        "packets": {},
    }
    with stored(cut.before) as (session, history):
        digests = []
        for budget in budgets:
            packet = build(session, history, budget=budget)
            result["packets"][str(budget)] = shares(packet.text(), wanted, ask)
            digests.append(packet.context.partition("Facts of the conversation")[2])
        if cut.summary:
            result["summary"] = shares(cut.summary, wanted, ask)
            given_back = {budget: facts(history, len(history), budget, known=cut.summary) for budget in budgets}
            digests += given_back.values()
            result["restored"] = {
                str(budget): shares(f"{cut.summary}\n{text}", wanted, ask) for budget, text in given_back.items()
            }
        result["digests"] = sum(map(bool, digests))
        result["never stood there"] = violations(digests, cut.before)
    return result


def shares(text: str, wanted: Use, ask: str) -> dict[str, Any]:
    """Return the share of each kind that a text has (None if nothing was wanted), and its size."""
    squeezed = " ".join(text.split())
    return {
        "tokens": tokens.estimate(text),
        **{
            kind: round(sum(_has(squeezed, value) for value in values) / len(values), 4) if values else None
            for kind, values in zip(KINDS, wanted, strict=False)
        },
        "last ask": float(ask in squeezed) if ask else None,
    }


def last_ask(messages: Sequence[Message]) -> str:
    """Return the beginning of the user's last message."""
    said = (message.content.strip() for message in reversed(messages) if message.role == USER)
    asks = (text for text in said if text and not text.startswith(NOTICES))
    return " ".join(next(asks, "").split())[:ASKED].strip()


@contextmanager
def stored(messages: Sequence[Message]) -> Iterator[tuple[Session, History]]:
    """Store these messages as a session of their own, for the product to build its packets from."""
    with work_folder() as folder, mock.patch("os.fsync"):
        store = WorkspaceStore(folder)
        store.create(Session(id="talk"))
        store.append("talk", *(_standalone(message) for message in messages))
        session = store.peek("talk")
        yield session, History(store, session)


def _standalone(message: Message) -> Message:
    return Message(role=message.role, content=message.content, parts=message.parts, timestamp=message.timestamp)


def _has(text: str, name: str) -> bool:
    """Whether a text has this name as a whole word."""
    start = text.find(name)
    while start >= 0:
        around = text[start - 1 : start] + text[start + len(name) : start + len(name) + 1]
        if not re.search(r"\w", around):
            return True
        start = text.find(name, start + 1)
    return False


def report(measured: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    compacted = [row for row in measured if row["compaction"]]
    of = len({row["conversation"] for row in measured})
    print(f"\n{of} conversations, {len(measured)} cuts, {len(compacted)} of them at a compaction.")
    print("Mean over conversations (95 % bootstrap interval).\n")
    rows = []
    for title, chosen in (("", measured), (", at compactions", compacted)):
        for budget in measured[0]["packets"]:
            found = [(row["conversation"], row["packets"][budget]) for row in chosen]
            rows.append((f"packet of {int(budget):,}{title}", *columns(found)))
        if not compacted:
            break
    if compacted:
        rows.append(("the tool's own summary", *columns([(row["conversation"], row["summary"]) for row in compacted])))
        for budget in measured[0]["packets"]:
            found = [(row["conversation"], row["restored"][budget]) for row in compacted]
            rows.append((f"summary and digest of {int(budget):,}", *columns(found)))
    print_table(("", "tokens", *KINDS), rows)
    invented = [entry for row in measured for entry in row["never stood there"]]
    digests, cuts_with = (
        sum(row["digests"] for row in measured),
        sum(bool(row["never stood there"]) for row in measured),
    )
    print(f"\n{digests} digests; what they state and what never stood in the conversation (target 0): {len(invented)}")
    print(f"names, paths and commands, at {cuts_with} of the cuts.")
    print("".join(f"  {entry}\n" for entry in invented[:SHOWN]), end="")


def columns(found: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the cells of one row: the size, then each share."""
    size = statistics.mean(shares["tokens"] for _, shares in found)
    return [f"{size:,.0f}", *(_cell(found, kind) for kind in KINDS)]


def _cell(found: Sequence[tuple[str, dict[str, Any]]], kind: str) -> str:
    by_conversation: dict[str, list[float]] = {}
    for name, values in found:
        if values[kind] is not None:
            by_conversation.setdefault(name, []).append(values[kind])
    means = [statistics.mean(values) for values in by_conversation.values()]
    if not means:
        return "–"
    drawn = random.Random(1)
    resampled = sorted(statistics.mean(drawn.choices(means, k=len(means))) for _ in range(RESAMPLES))
    low, high = resampled[RESAMPLES // 40], resampled[-RESAMPLES // 40 - 1]
    return f"{statistics.mean(means):.3f} ({low:.2f}–{high:.2f})"


if __name__ == "__main__":
    main()
