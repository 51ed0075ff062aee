"""The context of a chat: the prompt, the remembered facts, the summary of archived messages, and the messages of the
working file. It includes nothing of other sessions, which the model has to search for.

The summary is sent as a message and not in the system prompt: it is a record, not an instruction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

from cortext.agents.assistant.memory import Memory
from cortext.agents.talk.context import View
from cortext.model import clock, tokens
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.safety import framing
from cortext.store.base import Store
from cortext.store.capabilities import KeepsWorking

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


class Context(NamedTuple):
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
    ) -> Context:
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
        return Context(view, sections, summary)

    def _sections(self, memory: Memory, tools: bool) -> list[Section]:
        # The prompt must mention tools only if the model has them.
        names = ("assistant", "assistant_tools" if tools else "assistant_without_tools")
        text = self._own or "\n\n".join(prompt(name).strip() for name in names)
        today = clock.from_epoch(time.time())[:10]
        sections = [Section("prompt", f"{text}\n\nToday is {today} (UTC).")]
        facts = memory.prompt_section(self._facts)
        if facts:
            sections.append(Section("memory", facts))
        return sections


def _summary(text: str, archived: int) -> Section:
    begin = framing.BEGIN_SUMMARY.format(count=archived)
    return Section("summary", f"{begin}\n\n{framing.disarmed(text)}\n\n{framing.END_SUMMARY}")
