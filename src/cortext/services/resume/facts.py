"""The facts of a conversation whose messages are not all handed over: its digest, within a share of the tokens."""

from __future__ import annotations

from collections.abc import Iterable

from cortext.model.message import Message, batches
from cortext.services.digest.asks import ask_of
from cortext.services.digest.digest import digest
from cortext.services.resume.history import History
from cortext.services.text.message_masking import cut_texts, mask_messages

DIGEST_OF = 300  # the facts are taken from this many of the newest messages
LEAST_BEFORE = 100  # and from at least this many that are not handed over
MOST = 4_000  # tokens
_FIRST = 8  # standing instructions are looked for in this many of the first messages, too
_HEAD, _TAIL = 24_000, 8_000  # characters of a long text that are looked at: more than the digest reads of a result
_BATCH_MESSAGES = 500  # messages that are masked together,
_BATCH_CHARACTERS = 1 << 20  # or characters of them


def digest_tokens(room: int) -> int:
    """Return the tokens of a room that the facts get: half of a small one."""
    return min(room // 2, MOST)


def facts(history: History, index: int, budget: int, *, known: str = "") -> str:
    """Return the digest of a conversation of which the messages from this index on are handed over.

    The last ask is in it, however long ago that was. `known` is what the reader has besides.
    """
    start = max(0, min(index - LEAST_BEFORE, len(history) - DIGEST_OF))
    messages = _looked_at(history.read(start))
    if not any(map(ask_of, messages)):
        older = (message for position, message in enumerate(history.backwards()) if position >= len(history) - start)
        messages[:0] = _looked_at(message for message in [next(filter(ask_of, older), None)] if message is not None)
    first = _looked_at(history.read(0, min(_FIRST, start)))
    return digest(messages, budget=budget, first=first, known=known)


def _looked_at(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without secrets, and with the ends of very long texts: they may not fit into memory whole."""
    found: list[Message] = []
    for batch in batches(messages, most=_BATCH_MESSAGES, characters=_BATCH_CHARACTERS):
        masked, _ = mask_messages(batch)  # before anything is cut: half a secret has no recognisable form
        found += (cut_texts(message, _HEAD, _TAIL) for message in masked)
    return found
