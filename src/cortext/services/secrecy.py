"""Keeping secrets out of git: the last look at a session before it is committed, and the word about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.safety.secrets import mask
from cortext.store.base import Store

_MARK = re.compile(r"\[masked ([a-z0-9-]{1,40}) [0-9a-f]{2,6}\]")


def marks_in(messages: Iterable[Message]) -> dict[str, int]:
    """How many secrets were masked in these messages, by kind: so that the user can be told."""
    kinds: dict[str, int] = {}
    for message in messages:
        texts = [message.content, *(part.output for part in message.parts or ())]
        for kind in (kind for text in texts if "[masked " in text for kind in _MARK.findall(text)):
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def mask_session(store: Store, session: Session) -> int:
    """Mask what is stored of a session (another program, or an older version, may have written it); how many lines."""
    rewrite = getattr(store, "rewrite", None)  # a capability that a store of files has
    changed: int = rewrite(session.id, mask_json) if rewrite is not None else 0
    title, summary = mask(session.title).text, mask(session.summary).text
    if (title, summary) != (session.title, session.summary):
        store.update(session.id, Change(title=title, summary=summary))
    return changed


def mask_json(value: Any) -> Any:
    """Any JSON value with the secrets in its texts masked; keys stay."""
    if isinstance(value, str):
        return mask(value).text if len(value) >= 8 else value
    if isinstance(value, list):
        return [mask_json(item) for item in value]
    if isinstance(value, dict):
        return {key: mask_json(item) for key, item in value.items()}
    return value
