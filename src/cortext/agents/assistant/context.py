"""What a model is sent of a chat: prompt, remembered facts, the summary of older messages, and the newest ones.

It includes nothing of other sessions, which the model has to search for. The summary is sent as a message and not in
the system prompt: it is a record, not an instruction. The model writes it in fixed sections; code checks it and merges
it with the previous one. The model is asked once more if a heading is missing, and names that it left out are added by
code. Without a model, or if the model does not keep to the sections, the summary consists of sentences extracted from
the conversation. It records which messages it covers, so that none is summarised twice.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cortext.agents.assistant.memory import Memory
from cortext.agents.llm.base import ChatModel, Request
from cortext.agents.talk.context import View
from cortext.model import clock, tokens
from cortext.model.answer import AnswerText
from cortext.model.message import USER, Message
from cortext.model.session import BY_OTHER, BY_TEXT, Change, Session
from cortext.model.threads import thread
from cortext.model.wording import HEADING, NAMES, clip, heading_of
from cortext.safety import framing
from cortext.safety.framing import disarmed, fence, field
from cortext.services.digest.calls import calls_in
from cortext.services.digest.files_and_names import mentioned, ranked, used_files
from cortext.services.text.summaries import summarise
from cortext.services.text.titles import title
from cortext.store.base import Store
from cortext.store.capabilities import Compacts, KeepsWorking

PROMPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "prompts")
REPLY_TOKENS = 8_000  # of the model's context, reserved for the answer and the tools
MIN_TOKENS = 4_000  # of a view, so that a question fits


class Section(NamedTuple):
    """A named part of the context."""

    name: str
    text: str

    @property
    def tokens(self) -> int:
        """The estimated size."""
        return tokens.estimate(self.text)


class PromptContext(NamedTuple):
    """The view of one session, and what comes before its messages: sections of the prompt, and the summary."""

    view: View
    sections: list[Section]
    summary: Section | None = None


def prompt(name: str) -> str:
    """Return a prompt of this package."""
    with open(os.path.join(PROMPTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def working(store: Store, session_id: str) -> Iterable[Message]:
    """Return the messages that are not archived; all of them, if the store has no archive."""
    return store.working(session_id) if isinstance(store, KeepsWorking) else store.read(session_id)


class ContextBuilder:
    """Builds the current context of a session."""

    def __init__(self, *, limit: int, facts: int, own_prompt: str = "") -> None:
        self._limit, self._facts = limit, facts
        self._own = own_prompt.strip()

    def build(
        self, store: Store, session: Session, memory: Memory, model_context: int, *, tools: bool = True
    ) -> PromptContext:
        """Return the context of a session for a model with this context size (0: unknown), with or without tools.

        `memory` are the facts that the session may know.
        """
        messages = list(working(store, session.id))
        sections = self._sections(memory, tools)
        archived = messages[0].seq if messages else 0
        summary = _summary(session.summary, archived) if archived and session.summary else None
        limit = self._limit
        if model_context > 0:
            limit = max(MIN_TOKENS, min(limit, model_context - REPLY_TOKENS))
        view = View(limit, system="\n\n".join(section.text for section in sections))
        view.load(messages, summary.text if summary else "")
        return PromptContext(view, sections, summary)

    def _sections(self, memory: Memory, tools: bool) -> list[Section]:
        # The prompt must mention tools only if the model has them.
        names = ("assistant", "assistant_tools" if tools else "assistant_without_tools")
        text = self._own or "\n\n".join(prompt(name).strip() for name in names)
        sections = [Section("prompt", f"{text}\n\nToday is {clock.day(time.time())}.")]
        facts = memory.prompt_section(self._facts)
        if facts:
            sections.append(Section("memory", facts))
        return sections


def _summary(text: str, archived: int) -> Section:
    begin = framing.BEGIN_SUMMARY.format(count=archived)
    return Section("summary", f"{begin}\n\n{framing.disarmed(text)}\n\n{framing.END_SUMMARY}")


HEADINGS = (
    "Goal",
    "Constraints and preferences",
    "Decisions",
    "Done, active, blocked",
    "Failed attempts",
    NAMES,
    "Open asks",
    "Next step",
)
_ASKS = HEADINGS[6]
_LAST = 8  # messages whose names must be in the summary
_MOST_NAMES = 25
_CHUNK = 24_000  # tokens of the conversation that are summarised in one request
_MAX_CHARACTERS = 6_000  # of one message; the middle of a longer one is left out
_MAX_TOKENS = 3_000  # of a summary


class Summary(NamedTuple):
    """A summary; `covers` is the number after the last message it includes, `by` the author."""

    text: str
    covers: int
    by: str


def summarise_chat(store: Store, session: Session, model: ChatModel | None) -> Summary | None:
    """Return a new summary without storing it; None if the existing one covers every message."""
    new = [message for message in store.read(session.id, session.summary_covers) if not message.aside]
    if not new:
        return None
    covers = new[-1].seq + 1
    # Written by a model, by an agent, or by another program (then no author is recorded).
    written = session.summary if session.summary_by != BY_TEXT else ""
    if model is not None:
        # An extracted summary only repeats sentences: the model reads the whole conversation instead.
        messages = new if written else [message for message in store.read(session.id) if not message.aside]
        text = _by_model(model, written, thread(messages))
        if text:
            return Summary(text, covers, model.name)
    if written:
        return Summary(f"{written}\n\n{summarise(thread(new))}".strip(), covers, session.summary_by or BY_OTHER)
    return Summary(summarise(thread(store.read(session.id))), covers, BY_TEXT)


def store_summary(store: Store, session: Session, summary: Summary) -> bool:
    """Store a summary unless a newer one was stored meanwhile; return whether it was stored.

    A session without a title gets one from its text.
    """
    with store.open(session.id) as writer:
        if writer.session().summary_covers > session.summary_covers:
            return False
        change = Change(summary=summary.text, summary_covers=summary.covers, summary_by=summary.by)
        if not session.title:
            change.title = title(thread(store.read(session.id)))
        writer.update(change)
    return True


def compact_chat(store: Store, session: Session, keep: int) -> int:
    """Archive the messages that the summary covers, except the newest `keep`; return how many were archived."""
    messages = list(working(store, session.id))
    if not isinstance(store, Compacts) or len(messages) <= keep:
        return 0
    first = len(messages) - keep
    # The working file must begin with a user message, so that questions and tool calls keep their answers.
    while first > 0 and (messages[first].role != USER or messages[first].seq > session.summary_covers):
        first -= 1
    return store.compact(session.id, messages[first].seq) if first else 0


def headline(summary: str) -> str:
    """Return one line of a summary for a list: its goal if it has sections, else its first line."""
    lines = [line.strip() for line in summary.splitlines() if line.strip()]
    if lines and HEADING.match(lines[0]):
        lines = [line for line in lines[1:] if not HEADING.match(line)]
    return lines[0].lstrip("-*• ") if lines else ""


def missing_headings(text: str) -> list[str]:
    """Return the headings that a summary lacks, or that have nothing below them."""
    found = list(HEADING.finditer(text))
    ends = [heading.start() for heading in found[1:]] + [len(text)] * bool(found)
    filled = {heading_of(one[0]) for one, end in zip(found, ends, strict=True) if text[one.end() : end].strip()}
    return [heading for heading in HEADINGS if heading.casefold() not in filled]


def with_facts(text: str, messages: Sequence[Message]) -> str:
    """Return the summary with the names in the last messages and the open question added, if they are missing."""
    recent = messages[-_LAST:]
    calls = calls_in(recent)
    files = [*(file.path for file in used_files(calls)), *mentioned(recent, calls)]
    names = [name.word for name in ranked(recent, calls)[:_MOST_NAMES]]
    text = _add(text, NAMES, [f"- {name}" for name in dict.fromkeys([*files, *names]) if name not in text])
    waiting = [clip(message.content, 600) for message in _unanswered(recent)]
    return _add(text, _ASKS, [f"- {ask}" for ask in waiting if ask not in text])


def _unanswered(messages: Sequence[Message]) -> list[Message]:
    """Return the user's messages after the last answer, if they are the newest."""
    waiting: list[Message] = []
    for message in reversed(messages):
        if message.role != USER:
            break
        if message.content:
            waiting.insert(0, message)
    return waiting


def _add(text: str, heading: str, lines: Sequence[str]) -> str:
    if not lines:
        return text
    found = re.search(rf"^#{{1,4}}\s*[*_]*{re.escape(heading)}[*_]*\s*:?\s*$\n?", text, re.MULTILINE | re.IGNORECASE)
    if found is None:
        return text
    rest = text[found.end() :]
    rest = re.sub(r"\A\s*[-*]?\s*none\.?[ \t]*$\n?", "", rest, count=1, flags=re.MULTILINE | re.IGNORECASE)
    return text[: found.end()].rstrip("\n") + "\n" + "\n".join(lines) + "\n" + rest


def _by_model(model: ChatModel, previous: str, messages: Sequence[Message]) -> str:
    """Return the model's summary, built chunk by chunk; empty if the model does not keep to the sections."""
    text = previous
    for chunk in _chunks(messages, min(_CHUNK, max(2_000, model.context // 2))):
        text = _ask(model, text, chunk)
        if not text:
            return ""
    return with_facts(text, messages) if text else ""


def _ask(model: ChatModel, previous: str, conversation: str) -> str:
    previous = disarmed(previous)
    suffix = fence([conversation, previous])  # unique, so that a message cannot contain the closing tag
    content = f"<conversation-{suffix}>\n{conversation}\n</conversation-{suffix}>"
    if previous:
        content = f"<previous-summary-{suffix}>\n{previous}\n</previous-summary-{suffix}>\n\n{content}"
    messages = [Message(role=USER, content=f"{content}\n\nWrite the summary now.")]
    for _ in range(2):
        request = Request(messages=messages, system=prompt("summary"), max_tokens=_MAX_TOKENS)
        text = "".join(event.text for event in model.stream(request) if isinstance(event, AnswerText)).strip()
        missing = missing_headings(text)
        if not missing:
            return text
        messages = [
            *messages[:1],
            Message(role="assistant", content=text or "(nothing)"),
            Message(role=USER, content=f"These sections are missing: {', '.join(missing)}. Write all of it again."),
        ]
    return ""


def _chunks(messages: Sequence[Message], size: int) -> list[str]:
    """Return the conversation as texts of at most `size` tokens; one long message may exceed it."""
    chunks: list[str] = []
    lines: list[str] = []
    used = 0
    for message in messages:
        text = message.text.strip()
        if not text:
            continue
        if len(text) > _MAX_CHARACTERS:
            text = f"{text[: _MAX_CHARACTERS * 2 // 3]}\n[…]\n{text[-_MAX_CHARACTERS // 3 :]}"
        cost = tokens.estimate(text) + 4
        if lines and used + cost > size:
            chunks.append("\n\n".join(lines))
            lines, used = [], 0
        lines.append(f"{field(message.role)}: {disarmed(text)}")
        used += cost
    return [*chunks, "\n\n".join(lines)] if lines else chunks
