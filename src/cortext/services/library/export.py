"""A conversation as a document: Markdown for people, JSON for programs. Secrets are masked by default."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from cortext.model.message import TOOL_CALL, TOOL_RESULT, Message, batches
from cortext.model.session import Session
from cortext.safety import terminal
from cortext.safety.languages import markdown
from cortext.services.library.json_views import conversation_json, message_json
from cortext.services.library.stores import StoredConversation
from cortext.services.text.message_masking import mask_messages, mask_session, mask_value

BATCH_MESSAGES = 500  # messages that are masked together,
BATCH_CHARACTERS = 1 << 20  # or characters of them


def masked(messages: Iterable[Message]) -> tuple[list[Message], list[str]]:
    """Return the messages without secrets, and the kind of each secret that was masked."""
    clean, findings = mask_messages(list(messages))
    return clean, [finding.kind for finding in findings]


def mask_lazily(messages: Iterable[Message], kinds: Counter[str]) -> Iterator[Message]:
    """Yield the messages without secrets, lazily, and count the kinds that were masked."""
    for batch in batches(messages, most=BATCH_MESSAGES, characters=BATCH_CHARACTERS):
        clean, found = masked(batch)
        kinds.update(found)
        yield from clean


def as_markdown(session: Session, messages: Iterable[Message], *, unmasked: bool = False) -> str:
    """Return a readable document: a heading per message, tool calls as code. The messages are not masked here."""
    return "".join(markdown_chunks(session, messages, unmasked=unmasked))


def markdown_chunks(session: Session, messages: Iterable[Message], *, unmasked: bool = False) -> Iterator[str]:
    """Yield the same document, a message at a time."""
    session = session if unmasked else mask_session(session)
    lines = [f"# {markdown(session.title or session.id)}", ""]
    facts = [session.type, session.shown_status, session.origin.tool, session.agent_config.model]
    facts = [f"`{session.id}`", *map(markdown, facts)]
    lines += [" · ".join(fact for fact in facts if fact), ""]
    if session.summary:
        lines += [f"> {terminal.line(line)}" for line in session.summary.splitlines()] + [""]
    for message in messages:
        yield as_utf8("\n".join(lines)) + "\n"
        lines = [f"## {markdown(message.role)} · {markdown(message.timestamp)}", ""]
        if message.content:
            lines += [message.content, ""]
        for part in message.parts or ():
            if part.type == TOOL_CALL:
                call = json.dumps(part.input, ensure_ascii=False, indent=2)
                lines += [f"**{markdown(part.name)}**", "", *_fenced(call, "json"), ""]
            elif part.type == TOOL_RESULT:
                lines += [*_fenced(part.output), ""]
            elif part.ref:
                lines += [f"[{markdown(part.type)}: {markdown(part.ref)}]", ""]
    yield as_utf8("\n".join(lines).rstrip()) + "\n"


def _fenced(text: str, language: str = "") -> list[str]:
    """Return a code block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", text, fence]


def as_json(conversation: StoredConversation, messages: Iterable[Message], *, unmasked: bool = False) -> str:
    """Return the session and its messages, as `cortext show --json` prints them."""
    return "".join(json_chunks(conversation, messages, unmasked=unmasked))


def json_chunks(
    conversation: StoredConversation, messages: Iterable[Message], *, unmasked: bool = False
) -> Iterator[str]:
    """Yield the same document, a message at a time."""
    session = conversation_json(conversation)
    session = session if unmasked else mask_value(session)
    empty = "[]\n}"
    yield as_utf8(_indented({**session, "messages": []}).removesuffix(empty))
    between = "[\n    "
    for message in messages:
        yield between + as_utf8(_indented(message_json(message)).replace("\n", "\n    "))
        between = ",\n    "
    yield (empty if between[0] == "[" else "\n  ]\n}") + "\n"


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def as_utf8(text: str) -> str:
    """Return the text with half surrogate pairs, which an older log may contain, replaced by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
