"""Embeddings of a chat's messages. They are computed after the turn and stored as separate records in the log.

Messages that lack one (the process was killed, or the embedding model was changed) are found and embedded here. No
record is ever rewritten: a vector of another model stays, and the newest one of a message is used.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from cortext.model.message import ASSISTANT, USER, Message
from cortext.store.base import Store
from cortext.store.capabilities import Annotates, EmbedsSummaries

EMBEDDING = "embedding"
BATCH = 512  # messages that are embedded and stored together
MAX_CHARACTERS = 8_000  # of a message; the rest is not embedded


class Embedder(Protocol):
    """An embedding model. Its `name` is stored with each vector, so that vectors of two models are never compared."""

    name: str

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a numpy array of float32 with one row per text: a unit vector, or zeros if no word is known."""


def is_embedded(message: Message) -> bool:
    """Whether a message gets a vector: a complete one with text, of the user or the assistant."""
    return message.role in (USER, ASSISTANT) and not message.partial and not message.aside and bool(message.text)


def records(embedder: Embedder, messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return the records with the vectors of these messages: values from -127 to 127, and their scale."""
    return [
        {"type": EMBEDDING, "message_id": message.id, **vector}
        for message, vector in zip(messages, packed(embedder, [message.text for message in messages]), strict=True)
    ]


def packed(embedder: Embedder, texts: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the vectors of these texts in the stored form."""
    from cortext.index.search.vectors import pack

    for row, scale in zip(*pack(embedder.embed([text[:MAX_CHARACTERS] for text in texts])), strict=True):
        yield {
            "model": embedder.name,
            "dimensions": len(row),
            "scale": round(float(scale), 8),
            "int8": base64.b64encode(row.tobytes()).decode("ascii"),
        }


def without_vector(store: Store, session_id: str, model: str) -> list[Message]:
    """Return the messages of a session that have no vector of this model."""
    stored = store.annotations(session_id) if isinstance(store, Annotates) else ()
    present = {record.get("message_id") for record in stored if _is_embedding_of(record, model)}
    return [message for message in store.read(session_id) if is_embedded(message) and message.id not in present]


def _is_embedding_of(record: dict[str, object], model: str) -> bool:
    return record.get("type") == EMBEDDING and record.get("model") == model


def embed(store: Store, session_id: str, embedder: Embedder, messages: Sequence[Message]) -> int:
    """Store the vectors of these messages; return their number."""
    return embed_many(store, embedder, {session_id: [message for message in messages if is_embedded(message)]})


def embed_many(store: Store, embedder: Embedder, wanted: Mapping[str, Sequence[Message]]) -> int:
    """Store the vectors of messages of several sessions in batches, which is faster; return their number."""
    if not isinstance(store, Annotates):
        return 0
    pairs = [(session_id, message) for session_id, messages in wanted.items() for message in messages]
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        by_session: dict[str, list[dict[str, object]]] = {}
        for (session_id, _), record in zip(batch, records(embedder, [message for _, message in batch]), strict=True):
            by_session.setdefault(session_id, []).append(record)
        for session_id, embeddings in by_session.items():
            store.annotate(session_id, *embeddings)
    return len(pairs)


def backfill(store: Store, session_id: str, embedder: Embedder) -> int:
    """Store the missing vectors of a session's messages and of its summary; return how many were missing."""
    added = embed(store, session_id, embedder, without_vector(store, session_id, embedder.name))
    return added + embed_summary(store, session_id, embedder)


def embed_summary(store: Store, session_id: str, embedder: Embedder) -> int:
    """Store the vector of the summary if it has none of this model; return 1 if it was stored, else 0."""
    summary = store.peek(session_id).summary
    if not summary or not isinstance(store, EmbedsSummaries):
        return 0
    existing = store.summary_embedding(session_id)
    if existing is not None and existing.get("model") == embedder.name:
        return 0
    return int(store.embed_summary(session_id, summary, next(packed(embedder, [summary]))))
