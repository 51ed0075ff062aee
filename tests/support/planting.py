"""Sessions and messages with a text planted in every field, as an untrusted repository could contain them.

The fields are those of the structs, so a field added later is planted too.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    ROLES,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
)
from cortext.model.session import Session
from cortext.store.files.workspace import CODEC, WorkspaceStore

Word = Callable[[str], str]
PARTS = (TEXT, THINKING, TOOL_CALL, TOOL_RESULT, IMAGE, FILE, "something-else")


def planted(kind: type[Any], word: Word, path: str = "", **fixed: Any) -> Any:
    """Return a struct of this type with `word(path of the field)` in every text field."""
    values = dict(fixed)
    for field in msgspec.structs.fields(kind):
        here = f"{path}{kind.__name__.lower()}.{field.name}"
        if field.name not in fixed:
            value = _value(field.type, word, here)
            if value is not None:
                values[field.name] = value
    return kind(**values)


def _value(kind: Any, word: Word, path: str) -> Any:
    """Return a value of this type that contains the word, or None if it cannot contain text."""
    if kind is str:
        return word(path)
    if kind is Any:
        return {word(f"{path}.key"): [word(f"{path}.value"), {"deep": word(f"{path}.deep")}]}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return planted(kind, word, f"{path}.")
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return next((value for one in inner if (value := _value(one, word, path)) is not None), None)
    if origin is list and inner[0] is Part:
        return [planted(Part, word, f"{path}[{name}].", type=name) for name in PARTS]
    if origin is list:
        return [_value(inner[0], word, path)]
    if origin is dict:
        return _value(Any, word, path)
    return None


def messages(word: Word) -> Iterator[Message]:
    """Yield one message of each role, and one of an unknown role."""
    for number, role in enumerate((*ROLES, None)):
        fixed = {} if role is None else {"role": role}
        made = planted(Message, word, f"{role or 'unknown'}.", seq=number, **fixed)
        made.parent = ""  # keep all of them in the thread
        yield made


def sound_messages(word: Word) -> Iterator[Message]:
    """Yield a conversation that every tool accepts: each role has only its own parts, a call has its result."""
    call = word("call")
    kinds = {USER: (TEXT,), ASSISTANT: (TEXT, TOOL_CALL), TOOL: (TOOL_RESULT,)}
    for number, role in enumerate((USER, ASSISTANT, TOOL, ASSISTANT)):
        parts = [
            planted(Part, word, f"{role}[{kind}].", type=kind, id=call, call_id=call, is_error=False)
            for kind in (kinds[role] if number < 3 else (TEXT,))
        ]
        said = "\n".join(part.text for part in parts if part.type == TEXT)
        yield planted(Message, word, f"{role}.", seq=number, role=role, parts=parts, content=said, parent="")


def plant(
    store: WorkspaceStore, name: str, word: Word, said: Callable[[Word], Iterator[Message]] = messages, **fixed: Any
) -> Session:
    """Create a session with the word in every field of its metadata and messages, bypassing the store."""
    store.create(Session(id=name, type="plan", title="Planted"))
    folder = Path(store.get(name).path) / ".session"
    session = planted(Session, word, id=name, status="paused", store="", path="", **fixed)
    (folder / "session.json").write_text(json.dumps(CODEC.encode(session, {})), encoding="utf-8")
    lines = [msgspec.json.encode(message) for message in said(word)]
    (folder / "messages.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return store.get(name)
