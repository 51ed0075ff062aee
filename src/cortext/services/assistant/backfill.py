"""Embeddings of a chat's messages, each as a line of its own after its message: made afterwards, so nobody waits.

A message without one (the process died in between, the model was changed) is found and gets it here. No line is ever
rewritten: a vector of another model stays, and the newest of a message counts.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from cortext.model.message import ASSISTANT, USER, Message
from cortext.store.base import Store
from cortext.store.capabilities import Annotates, EmbedsSummaries

EMBEDDING = "embedding"
BATCH = 512  # messages that are embedded and stored at once
LONGEST = 8_000  # characters of a message that say what it is about


class Embedder(Protocol):
    """Makes a vector of a text; `name` is stored with each, so that vectors of two models are never compared."""

    name: str

    def embed(self, texts: Sequence[str]) -> Any:
        """One row a text, as a numpy array of float32: of length 1, or 0 where the text has no known word."""


def is_embedded(message: Message) -> bool:
    """Whether a message is one that gets a vector: said by one of the two, and whole."""
    return message.role in (USER, ASSISTANT) and not message.partial and not message.aside and bool(message.text)


def records(embedder: Embedder, messages: Sequence[Message]) -> list[dict[str, object]]:
    """The lines that hold the vectors of these messages: bytes from -127 to 127, and what one of them stands for."""
    return [
        {"type": EMBEDDING, "message_id": message.id, **vector}
        for message, vector in zip(messages, packed(embedder, [message.text for message in messages]), strict=True)
    ]


def packed(embedder: Embedder, texts: Sequence[str]) -> Iterator[dict[str, object]]:
    """The vectors of these texts as they are stored."""
    from cortext.index.search.vectors import pack

    for row, scale in zip(*pack(embedder.embed([text[:LONGEST] for text in texts])), strict=True):
        yield {
            "model": embedder.name,
            "dimensions": len(row),
            "scale": round(float(scale), 8),
            "int8": base64.b64encode(row.tobytes()).decode("ascii"),
        }


def lacking(store: Store, session_id: str, model: str) -> list[Message]:
    """The messages of a session that have no vector of this model."""
    noted = store.annotations(session_id) if isinstance(store, Annotates) else ()
    there = {record.get("message_id") for record in noted if _is_of(record, model)}
    return [message for message in store.read(session_id) if is_embedded(message) and message.id not in there]


def _is_of(record: dict[str, object], model: str) -> bool:
    return record.get("type") == EMBEDDING and record.get("model") == model


def embed(store: Store, session_id: str, embedder: Embedder, messages: Sequence[Message]) -> int:
    """Store the vectors of these messages; how many."""
    return embed_many(store, embedder, {session_id: [message for message in messages if is_embedded(message)]})


def embed_many(store: Store, embedder: Embedder, wanted: Mapping[str, Sequence[Message]]) -> int:
    """Store the vectors of these messages of these sessions; how many. Together, because that is faster."""
    if not isinstance(store, Annotates):
        return 0
    everything = [(session_id, message) for session_id, messages in wanted.items() for message in messages]
    for start in range(0, len(everything), BATCH):
        lot = everything[start : start + BATCH]
        by_session: dict[str, list[dict[str, object]]] = {}
        for (session_id, _), record in zip(lot, records(embedder, [message for _, message in lot]), strict=True):
            by_session.setdefault(session_id, []).append(record)
        for session_id, lines in by_session.items():
            store.annotate(session_id, *lines)
    return len(everything)


def backfill(store: Store, session_id: str, embedder: Embedder) -> int:
    """Give every message of a session its vector, and its summary too; how many were missing."""
    made = embed(store, session_id, embedder, lacking(store, session_id, embedder.name))
    return made + embed_summary(store, session_id, embedder)


def embed_summary(store: Store, session_id: str, embedder: Embedder) -> int:
    """Store the vector of the summary where it has none of this model; whether it did."""
    summary = store.peek(session_id).summary
    if not summary or not isinstance(store, EmbedsSummaries):
        return 0
    there = store.summary_embedding(session_id)
    if there is not None and there.get("model") == embedder.name:
        return 0
    return int(store.embed_summary(session_id, summary, next(packed(embedder, [summary]))))
