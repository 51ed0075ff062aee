"""Keeping secrets out of git: the final check of a session before it is committed, and what to report."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from cortext.errors import UnsafePath
from cortext.io import durable
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.safety.secrets.masking import find, mask
from cortext.services.text.masking import mask_session, mask_value
from cortext.store.base import Store
from cortext.store.capabilities import Rewrites

LARGEST_NOTES = 16 << 20
_MASKED = re.compile(r"\[masked ([a-z0-9-]{1,40}) [0-9a-f]{2,6}\]")


def count_masked(messages: Iterable[Message]) -> dict[str, int]:
    """Count the secrets that were masked in these messages, by kind, to tell the user."""
    kinds: dict[str, int] = {}
    for message in messages:
        texts = [message.content, *(part.output for part in message.parts or ())]
        for kind in (kind for text in texts if "[masked " in text for kind in _MASKED.findall(text)):
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def mask_stored(store: Store, session: Session) -> Session:
    """Mask what is stored of a session (another program or an older version may have written it); return it."""
    if isinstance(store, Rewrites) and store.rewrite(session.id, mask_value):
        session = store.get(session.id)
    masked = mask_session(session)
    names = [name for name in Change.__struct_fields__ if getattr(masked, name, None) != getattr(session, name, None)]
    return store.update(session.id, Change(**{name: getattr(masked, name) for name in names})) if names else session


def mask_notes(folder: str, names: Iterable[str]) -> dict[str, int]:
    """Mask the markdown files of a conversation that are about to be committed; return the secrets by kind."""
    kinds: dict[str, int] = {}
    for name in names:
        path = os.path.join(folder, name)
        masked = mask((_contents(path) or b"").decode("utf-8", "surrogateescape"))
        if masked.findings:
            durable.replace_file(path, [masked.text.encode("utf-8", "surrogateescape")])
        for finding in masked.findings:
            kinds[finding.kind] = kinds.get(finding.kind, 0) + 1
    return kinds


def secrets_in(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Return which of these files must not be committed, and why. Nothing is changed; binary files are fine."""
    found: dict[str, str] = {}
    for name in names:
        raw = _contents(os.path.join(folder, name))
        if raw is None:
            found[name] = f"it has over {LARGEST_NOTES >> 20} MB, too much to check for secrets"
        elif b"\0" not in raw:
            kinds = dict.fromkeys(finding.kind for finding in find(raw.decode("utf-8", "surrogateescape")))
            if kinds:
                found[name] = f"it contains a secret ({', '.join(kinds)})"
    return found


def secrets_in_names(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Return which of these files have a secret in their name, or in the path that they link to, and what it is."""
    found: dict[str, str] = {}
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            continue  # deleted: what git has of it may go
        target = os.readlink(path) if os.path.islink(path) else ""
        for text, where in ((name, "its name has a secret in it"), (target, "it links to a path with a secret in it")):
            kinds = dict.fromkeys(finding.kind for finding in find(text))
            if kinds:
                found[name] = f"{where} ({', '.join(kinds)})"
    return found


def _contents(path: str) -> bytes | None:
    """Return the content of a file; empty if it was deleted or is a link, None if it is too large to check."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except (OSError, UnsafePath):  # git stores a link's target path, not the content of the target
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return b"".join(durable.read_blocks(descriptor, 0, size)) if size <= LARGEST_NOTES else None
    finally:
        os.close(descriptor)
