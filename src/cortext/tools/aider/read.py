"""Read a conversation of Aider. A history of our own gives back the messages that were carried into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cortext.model.message import ASSISTANT, USER, Message
from cortext.tools.aider.history import Block, blocks
from cortext.tools.aider.store import AiderStore, Section
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.shared.lines import derived_id, local_moment, note
from cortext.tools.shared.typed import is_resume_block
from cortext.tools.shared.written import Restored

_COMMAND = ("/", "!")
_BLANK = "<blank>"


class AiderReading:
    """The messages of a conversation; see `TranscriptReading`. Aider records times only for its starts."""

    def __init__(self, store: AiderStore, transcript: Transcript) -> None:
        self._store, self._transcript = store, transcript
        self.about, self.counts = About(), Counts()
        self.cursor: dict[str, Any] | None = None  # a section is short: it is always read as a whole

    def __iter__(self) -> Iterator[Message]:
        self.about, self.counts = About(project=self._transcript.project), Counts()
        section = self._store.section(self._transcript)
        if section is None:
            return
        messages: Iterable[Message] = section_messages(section, self.counts)
        if section.head is not None:
            self.about.title = section.head.title
            messages = Restored(messages, self._store.list_path(section.key))
        for message in messages:
            self.about.created_at = self.about.created_at or message.timestamp
            self.about.model = message.model or self.about.model
            yield message


def section_messages(section: Section, counts: Counts) -> Iterator[Message]:
    """Yield the messages as the file contains them."""
    spoken = list(blocks(section.text))
    for index, block in enumerate(spoken):
        kind = _skipped(spoken, index)
        if kind:
            note(counts.skipped, kind)
            continue
        message = Message(
            role=block.role,
            content=block.text,
            timestamp=local_moment(block.started),
            id=derived_id(section.key, index, block.role, block.text),
            model=block.model,
            usage=block.usage,
            tokens=block.usage["output_tokens"] if block.usage else None,
        )
        if block.role == USER and is_resume_block(block.text):
            message.aside, message.extra = True, {"resume_block": True}
        yield message


def _skipped(spoken: Sequence[Block], index: int) -> str:
    """Return why something that the user typed is not part of the conversation; empty if it is."""
    block = spoken[index]
    if block.role != USER or not block.started:  # we wrote what precedes the first start of Aider
        return ""
    answered = index + 1 < len(spoken) and spoken[index + 1].role == ASSISTANT
    if not answered and block.text.startswith(_COMMAND):
        return "command"
    return "blank input" if block.text.strip() in ("", _BLANK) else ""
