"""The summary of a chat: written by the model in fixed sections, checked by code, merged into the one before.

Code keeps the facts and the model writes the reasons: what the check misses (a heading) is asked for once more, and
names that the model left out are added by code. Without a model, or where it will not keep to the sections, the
summary is a choice of the talk's own sentences. It says what it covers, so that nobody makes it twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cortext.llm.base import Model, Request, Text
from cortext.model import tokens
from cortext.model.message import USER, Message, thread
from cortext.model.session import BY_OTHER, Change, Session
from cortext.safety.framing import disarmed, fence, field
from cortext.services.assistant.context import prompt, working
from cortext.store.base import Store
from cortext.store.capabilities import Compacts

HEADINGS = (
    "Goal",
    "Constraints and preferences",
    "Decisions",
    "Done, active, blocked",
    "Failed attempts",
    "Files and identifiers",
    "Open asks",
    "Next step",
)
BY_TEXT = "text"
_NAMES = HEADINGS[5]
_ASKS = HEADINGS[6]
_HEADING = re.compile(r"^#{1,4}\s*(.+?)\s*:?\s*$", re.MULTILINE)
_LAST = 8  # messages whose names must be in the summary
_CHUNK = 24_000  # tokens of talk that are summed up at once
_LONGEST = 6_000  # characters of one message that are worth it
_WRITTEN = 3_000  # tokens that a summary may have


class Summary(NamedTuple):
    """A summary, what it covers (the number after its last message), and who wrote it."""

    text: str
    covers: int
    by: str


def summarise_chat(store: Store, session: Session, model: Model | None) -> Summary | None:
    """The summary as it should be now; None where the one that is there covers everything. Nothing is stored."""
    from cortext.services.text.summarise import summarise

    new = [message for message in store.read(session.id, session.summary_covers) if not message.aside]
    if not new:
        return None
    covers = new[-1].seq + 1
    # A model's, an agent's, or (where nobody is named) another program's.
    written = session.summary if session.summary_by != BY_TEXT else ""
    if model is not None:
        # What code wrote is made of sentences of the talk: the model reads the talk itself.
        talk = new if written else [message for message in store.read(session.id) if not message.aside]
        text = _by_model(model, written, thread(talk))
        if text:
            return Summary(text, covers, model.name)
    if written:
        return Summary(f"{written}\n\n{summarise(thread(new))}".strip(), covers, session.summary_by or BY_OTHER)
    return Summary(summarise(thread(store.read(session.id))), covers, BY_TEXT)


def store_summary(store: Store, session: Session, summary: Summary) -> bool:
    """Keep a summary, unless a newer one came meanwhile. A session without a title gets one from its own words."""
    with store.open(session.id) as writer:
        if writer.session().summary_covers > session.summary_covers:
            return False
        change = Change(summary=summary.text, summary_covers=summary.covers, summary_by=summary.by)
        if not session.title:
            from cortext.services.text.titles import title

            change.title = title(thread(store.read(session.id)))
        writer.update(change)
    return True


def compact_chat(store: Store, session: Session, keep: int) -> int:
    """Move what the summary covers out of the working file, but the newest `keep` messages; how many moved."""
    messages = list(working(store, session.id))
    if not isinstance(store, Compacts) or len(messages) <= keep:
        return 0
    border = len(messages) - keep
    # A question stays with its answer, a tool's call with its result: the file begins with the user's words.
    while border > 0 and (messages[border].role != USER or messages[border].seq > session.summary_covers):
        border -= 1
    return store.compact(session.id, messages[border].seq) if border else 0


def headline(summary: str) -> str:
    """A summary in one line, for a list: its goal where it has sections, else how it begins."""
    lines = [line.strip() for line in summary.splitlines() if line.strip()]
    if lines and _HEADING.match(lines[0]):
        lines = [line for line in lines[1:] if not _HEADING.match(line)]
    return lines[0].lstrip("-*• ") if lines else ""


def missing_headings(text: str) -> list[str]:
    """The sections that a summary lacks."""
    there = {found.strip("*_ ").casefold() for found in _HEADING.findall(text)}
    return [heading for heading in HEADINGS if heading.casefold() not in there]


def with_facts(text: str, messages: Sequence[Message]) -> str:
    """The summary with the names of the last messages and the open question, where the model left them out."""
    from cortext.services.text.digest import digest

    facts = digest(messages[-_LAST:], names=25)
    names = [name for name in (*facts.changed_files, *facts.read_files, *facts.identifiers) if name not in text]
    text = _add(text, _NAMES, [f"- {name}" for name in dict.fromkeys(names)])
    if messages and messages[-1].role == USER:
        asks = [ask for ask in facts.open_requests if ask not in text]
        text = _add(text, _ASKS, [f"- {ask}" for ask in asks])
    return text


def _add(text: str, heading: str, lines: Sequence[str]) -> str:
    if not lines:
        return text
    found = re.search(rf"^#{{1,4}}\s*[*_]*{re.escape(heading)}[*_]*\s*:?\s*$\n?", text, re.MULTILINE | re.IGNORECASE)
    if found is None:
        return text
    rest = text[found.end() :]
    rest = re.sub(r"\A\s*[-*]?\s*none\.?[ \t]*$\n?", "", rest, count=1, flags=re.MULTILINE | re.IGNORECASE)
    return text[: found.end()].rstrip("\n") + "\n" + "\n".join(lines) + "\n" + rest


def _by_model(model: Model, previous: str, talk: Sequence[Message]) -> str:
    """The model's summary, chunk by chunk where the talk is long; empty where it does not keep to the sections."""
    text = previous
    for chunk in _chunks(talk, min(_CHUNK, max(2_000, model.context // 2))):
        text = _ask(model, text, chunk)
        if not text:
            return ""
    return with_facts(text, talk) if text else ""


def _ask(model: Model, previous: str, talk: str) -> str:
    previous = disarmed(previous)
    mark = fence([talk, previous])  # words of the talk cannot end the part that holds them
    words = f"<conversation-{mark}>\n{talk}\n</conversation-{mark}>"
    if previous:
        words = f"<previous-summary-{mark}>\n{previous}\n</previous-summary-{mark}>\n\n{words}"
    asked = [Message(role=USER, content=f"{words}\n\nWrite the summary now.")]
    for _ in range(2):
        request = Request(messages=asked, system=prompt("summary"), max_tokens=_WRITTEN)
        text = "".join(event.text for event in model.stream(request) if isinstance(event, Text)).strip()
        lacking = missing_headings(text)
        if not lacking:
            return text
        asked = [
            *asked[:1],
            Message(role="assistant", content=text or "(nothing)"),
            Message(role=USER, content=f"These sections are missing: {', '.join(lacking)}. Write all of it again."),
        ]
    return ""


def _chunks(talk: Sequence[Message], size: int) -> list[str]:
    chunks: list[str] = []
    lines: list[str] = []
    used = 0
    for message in talk:
        words = message.text.strip()
        if not words:
            continue
        if len(words) > _LONGEST:
            words = f"{words[: _LONGEST * 2 // 3]}\n[…]\n{words[-_LONGEST // 3 :]}"
        cost = tokens.estimate(words) + 4
        if lines and used + cost > size:
            chunks.append("\n\n".join(lines))
            lines, used = [], 0
        lines.append(f"{field(message.role)}: {disarmed(words)}")
        used += cost
    return [*chunks, "\n\n".join(lines)] if lines else chunks
