"""What the model sees of a chat: the prompt, the facts that are always in, the summary of what was archived, and
the messages of the working file. Nothing of other sessions: those it has to ask for.

The summary is a message and no part of the system's text: what was said once is a record, and gives no orders.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

from cortext.model import clock, tokens
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.safety import framing
from cortext.services.assistant.memory import Memory
from cortext.services.talk.context import View
from cortext.store.base import Store
from cortext.store.capabilities import KeepsWorking

PROMPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "prompts")
REPLY = 8_000  # tokens of the model's window that are left for the answer and the tools
LEAST = 4_000  # a view smaller than this could not hold a question


class Section(NamedTuple):
    """A part of what the model sees."""

    name: str
    text: str

    @property
    def tokens(self) -> int:
        """Its size."""
        return tokens.estimate(self.text)


class Context(NamedTuple):
    """The view of one session, and what stands in it before the messages: sections of the prompt, and the summary."""

    view: View
    sections: list[Section]
    summary: Section | None = None


def prompt(name: str) -> str:
    """A prompt that comes with the package."""
    with open(os.path.join(PROMPTS, f"{name}.md"), encoding="utf-8") as file:
        return file.read()


def working(store: Store, session_id: str) -> Iterable[Message]:
    """The messages that are not archived; all of them, where a store does not tell them apart."""
    return store.working(session_id) if isinstance(store, KeepsWorking) else store.read(session_id)


class ContextBuilder:
    """Makes the context of a session, as it is now."""

    def __init__(self, memory: Memory, *, limit: int, facts: int, own_prompt: str = "") -> None:
        self._memory = memory
        self._limit, self._facts = limit, facts
        self._own = own_prompt.strip()

    def build(self, store: Store, session: Session, model_context: int, *, tools: bool = True) -> Context:
        """The context of this session, for a model with so much room, which is given our tools or not."""
        messages = list(working(store, session.id))
        sections = self._sections(tools)
        archived = messages[0].seq if messages else 0
        summary = _summary(session.summary, archived) if archived and session.summary else None
        limit = self._limit
        if model_context > 0:
            limit = max(LEAST, min(limit, model_context - REPLY))
        view = View(limit, system="\n\n".join(section.text for section in sections))
        view.load(messages, summary.text if summary else "")
        return Context(view, sections, summary)

    def _sections(self, tools: bool) -> list[Section]:
        # A model is told only of tools that it has.
        ours = ("assistant", "assistant_tools" if tools else "assistant_without_tools")
        said = self._own or "\n\n".join(prompt(name).strip() for name in ours)
        today = clock.from_epoch(time.time())[:10]
        sections = [Section("prompt", f"{said}\n\nToday is {today} (UTC).")]
        facts = self._memory.standing(self._facts)
        if facts:
            sections.append(Section("memory", facts))
        return sections


def _summary(text: str, archived: int) -> Section:
    begin = framing.BEGIN_SUMMARY.format(count=archived)
    return Section("summary", f"{begin}\n\n{framing.disarmed(text)}\n\n{framing.END_SUMMARY}")
