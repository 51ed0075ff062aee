"""Where the files of a session lie, how we got there, and what was found in them."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model.session import Session
from cortext.store.base import Damage


class Place(msgspec.Struct, frozen=True):
    """The files of one session: what moves when it is deleted, its metadata, its log, and its archive.

    `archive` holds the older messages of a layout that can be compacted; empty where it cannot.
    """

    session_id: str
    whole: str
    metadata: str
    log: str
    archive: str = ""


class Way(msgspec.Struct, frozen=True):
    """How we got to a session before: its files, their folder, its lock and the folder of that."""

    place: Place
    folder: str
    lock: str
    locks: str


class Metadata(msgspec.Struct):
    """A metadata file as it was read: the session, its raw fields, and what is wrong with it."""

    session: Session
    fields: dict[str, Any]
    damage: list[Damage] = []


class Survey(msgspec.Struct, frozen=True):
    """What a reading of the whole log tells."""

    messages: int
    tokens: int
    first: str
    last: str
    straight: bool
    damage: list[Damage]
