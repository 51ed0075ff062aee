"""What Mistral Vibe stores. Only the fields that are read are declared here, and each has a default.

Vibe 3 (`unified/<id>`): `CURRENT` names a generation. Its manifest names the chunks with the messages that the model
gets (`checkpoint`) and with the entries that the screen shows (`projection_state`), and the journal with everything
since. Vibe 2 (`session_<time>_<id>`): `meta.json`, and a message per line in `messages.jsonl`. Vibe 3 imports such a
folder when it is resumed, and leaves it as it is; the runtime state of the new session names the old one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cortext.errors import CortextError, DamagedData
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.native import Mark
from cortext.tools.shared.values import valid_fields
from cortext.tools.vibe.adapter import CURRENT

META = "meta.json"
LINES = "messages.jsonl"
OLD = "vibe2/"  # where the files of a session are that another one was imported from
ERRORS = (OSError, CortextError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# The records of a journal that add nothing to the conversation.
BOOKKEEPING = ("command_reserved", "core_input", "receipt_succeeded", "receipt_failed")
Contents = dict[str, bytes]


class Current(msgspec.Struct):
    """The file `CURRENT`."""

    generation: str = ""
    session_id: str = ""


class Chunks(msgspec.Struct, frozen=True):
    """A list that is stored in several files."""

    chunks: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [f"chunks/{chunk}.json" for chunk in self.chunks]


class Segment(msgspec.Struct, frozen=True):
    """The journal since a generation."""

    path: str = ""


class Manifest(msgspec.Struct):
    """What belongs to a generation."""

    checkpoint: Chunks = Chunks()
    projection_state: Chunks = Chunks()
    runtime_state: Chunks = Chunks()
    recovery_journal_segment: Segment = Segment()


class Checkpoint(msgspec.Struct):
    """How often the model's messages were replaced by a summary."""

    compaction_count: int = 0


class Source(msgspec.Struct, frozen=True):
    """The session that another one was imported from."""

    backend: str = ""
    session_id: str = ""


class Provenance(msgspec.Struct, frozen=True):
    """Where a session comes from."""

    source: Source = Source()


class Identity(msgspec.Struct, frozen=True):
    """A session among its subagents, which have a depth of their own."""

    depth: int = 0


class Runtime(msgspec.Struct):
    """The runtime state of a generation."""

    identity: Identity = Identity()
    import_provenance: Provenance | None = None

    @property
    def imported_from(self) -> str:
        """The id of the Vibe 2 session that this one was made from; empty if there is none."""
        return self.import_provenance.source.session_id if self.import_provenance is not None else ""


class Environment(msgspec.Struct, frozen=True):
    """Where a session is held."""

    working_directory: str | None = None


class Config(msgspec.Struct, frozen=True):
    """The model of a session."""

    model_name: str | None = None
    active_model: str | None = None


class Meta(msgspec.Struct):
    """The file `meta.json` of both versions."""

    session_id: str = ""
    start_time: str | None = None
    title: str | None = None
    environment: Environment | None = None
    config: Config | None = None

    @property
    def project(self) -> str:
        return (self.environment.working_directory if self.environment else "") or ""


class Context(msgspec.Struct):
    """A message that the model gets. `source` is `history` if it is part of the conversation."""

    message: dict[str, Any] = {}
    source: str = "history"


class Entry(msgspec.Struct):
    """Something that the screen shows. Only messages matter here."""

    type: str = ""
    id: str = ""
    role: str = ""
    content: list[dict[str, Any]] = []
    createdAt: int = 0


class JournalRecord(msgspec.Struct):
    """A line of a journal."""

    type: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class Delta(msgspec.Struct):
    """A change of what the screen shows."""

    op: str = ""
    entry: Entry | None = None


class Deltas(msgspec.Struct):
    """The payload of `projection_delta`."""

    delta: list[Delta] = []


class ModelMessages(msgspec.Struct, frozen=True):
    """The messages of a request: all of them, or those that were added."""

    messages: tuple[dict[str, Any], ...] = ()


class ModelInput(msgspec.Struct, frozen=True):
    """What a request contains."""

    messages: ModelMessages = ModelMessages()


class Request(msgspec.Struct, frozen=True):
    """What an action asks for. `purpose` is `agent` for the conversation itself."""

    type: str = ""
    purpose: str = ""
    model_input: ModelInput | None = None


class Intent(msgspec.Struct):
    """The payload of `action_intent`."""

    action_id: str = ""
    request: Request = Request()


class Completion(msgspec.Struct):
    """An answer of the model."""

    parts: list[dict[str, Any]] = []
    usage: dict[str, Any] | None = None


class Outcome(msgspec.Struct, frozen=True):
    """How an action ended."""

    type: str = ""
    result: Any = None


class ActionResult(msgspec.Struct):
    """The payload of `action_result`."""

    action_id: str = ""
    result: Outcome = Outcome()


class Line(msgspec.Struct):
    """A message of Vibe 2. `cortext` is set on those that we wrote."""

    role: str = ""
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    message_id: str | None = None
    injected: bool = False
    cortext: Mark | None = None


journal_decoder = msgspec.json.Decoder(JournalRecord)
line_decoder = msgspec.json.Decoder(Line)


class Session:
    """The files of a session by name: of Vibe 3, with a `CURRENT`, or of Vibe 2. Raise an error if it is incomplete."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.is_unified = CURRENT in contents
        # What is odd in it (a title that is no text) costs no conversation; the other files say where the messages are.
        meta = msgspec.json.decode(self.read(META))
        if not isinstance(meta, dict):
            raise DamagedData(f"{META} is not a JSON object", kept="it is unchanged")
        self.meta = valid_fields(meta, Meta)
        self.id, self.generation = self.meta.session_id, ""
        self.manifest, self.runtime = Manifest(), Runtime()
        if self.is_unified:
            current = self.decode(CURRENT, Current)
            self.id, self.generation = current.session_id, f"generations/{current.generation}"
            self.manifest = self.decode(f"{self.generation}/manifest.json", Manifest)
            self.runtime = self.decode(f"{self.generation}/runtime-state.json", Runtime)

    @property
    def key(self) -> str:
        """Its first id."""
        return self.runtime.imported_from or self.id

    @property
    def old(self) -> Session | None:
        """The Vibe 2 session that it was imported from, if that still exists."""
        found = {name.removeprefix(OLD): data for name, data in self.contents.items() if name.startswith(OLD)}
        return Session(found) if found else None

    def read(self, name: str) -> bytes:
        """Return a file; raise FileNotFoundError if it does not exist."""
        try:
            return self.contents[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def decode(self, name: str, kind: Any) -> Any:
        """Return a JSON file as this type."""
        return msgspec.json.decode(self.read(name), type=kind)


def contents_of(pieces: Iterable[Piece]) -> Contents:
    """Return the files among these pieces, by name."""
    return {
        str(values.get("name")): str(values.get("text", "")).encode("latin-1" if values.get("latin1") else "utf-8")
        for kind, values in pieces
        if kind == "file"
    }
