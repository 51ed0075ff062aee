"""Every error that cortext raises on purpose, one tree:

CortextError
├── UsageError                 the command was not understood                     exit 2
│   ├── InvalidId              an id that could not be a file name of ours
│   └── InvalidMessage         a message that cannot be stored as it is
├── NotFound                   nothing matches                                    exit 1
│   ├── SessionNotFound
│   └── AmbiguousId            more than one match
├── TransitionRefused          a change of status that is not allowed             exit 1
├── SessionExists              an id that is taken                                exit 1
├── NotShared                  somebody else's session, not shared for that       exit 1
├── DamagedData                bytes on disk that are not what they should be     exit 3
├── SessionBusy                another process is writing                         exit 4
│   └── TakenOver              another process has taken over
├── WriteFailed                the disk refused; nothing was acknowledged         exit 5
├── UnsafePath                 a path that leads out of its store                 exit 6
├── ConfigError                a settings file that cannot be used                exit 7
├── StoreUnreachable           the server of the store does not answer            exit 9
└── ModelError                 the model gave no complete answer                  exit 8
    ├── NoModel                no model is named, or none is usable here
    ├── ModelRefused           the key, the name or the request was not accepted
    ├── ModelBusy              rate limit or overload, after the retries
    ├── ModelUnreachable       no connection, or no answer in time
    └── ModelCut               the answer broke off; the part that arrived is kept

An error says what happened (the message), what was kept (`kept`) and what to do next (`hint`).
`code` is the stable word for scripts (`--json`), `exit_status` what the process ends with.
"""

from __future__ import annotations


class CortextError(Exception):
    """The root of every error that cortext raises on purpose."""

    code = "error"
    exit_status = 1

    def __init__(self, message: str, *, kept: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kept = kept
        self.hint = hint
        self.session_id = ""  # the session in which it happened, for a script that continues with it
        self.reply = ""  # the part of a model's answer that had arrived

    def as_dict(self) -> dict[str, str]:
        """Return the error for `--json`, without empty fields."""
        fields = {"code": self.code, "message": self.message, "kept": self.kept, "hint": self.hint}
        fields |= {"session_id": self.session_id, "reply": self.reply}
        return {name: value for name, value in fields.items() if value}


class UsageError(CortextError):
    code = "usage"
    exit_status = 2


class InvalidId(UsageError):
    code = "invalid-id"


class InvalidMessage(UsageError):
    code = "invalid-message"


class NotFound(CortextError):
    code = "not-found"


class SessionNotFound(NotFound):
    code = "session-not-found"


class AmbiguousId(NotFound):
    code = "ambiguous-id"


class TransitionRefused(CortextError):
    code = "transition-refused"


class SessionExists(CortextError):
    code = "session-exists"


class NotShared(CortextError):
    code = "not-shared"


class DamagedData(CortextError):
    code = "damaged"
    exit_status = 3


class SessionBusy(CortextError):
    code = "busy"
    exit_status = 4


class TakenOver(SessionBusy):
    code = "taken-over"


class WriteFailed(CortextError):
    code = "write-failed"
    exit_status = 5


class UnsafePath(CortextError):
    code = "unsafe-path"
    exit_status = 6


class ConfigError(CortextError):
    code = "config"
    exit_status = 7


class StoreUnreachable(CortextError):
    code = "store-unreachable"
    exit_status = 9


class ModelError(CortextError):
    code = "model"
    exit_status = 8


class NoModel(ModelError):
    code = "no-model"


class ModelRefused(ModelError):
    code = "model-refused"


class ModelBusy(ModelError):
    code = "model-busy"


class ModelUnreachable(ModelError):
    code = "model-unreachable"


class ModelCut(ModelError):
    code = "model-cut"


# ── errors that are raised in more than one place ────────────────────────────────────────────────────


def session_not_found(session_id: str) -> SessionNotFound:
    """There is no session with this id."""
    return SessionNotFound(f"no session {session_id}", hint="list them with `cortext list`")


def session_exists(session_id: str) -> SessionExists:
    """A new session cannot be created under an id that is taken."""
    return SessionExists(f"session {session_id} already exists", kept="it is unchanged")


def session_exists_again(session_id: str) -> SessionExists:
    """A session cannot be restored from the trash: its id was taken since."""
    return SessionExists(
        f"session {session_id} exists again",
        kept="both are unchanged",
        hint="delete the existing one, then restore",
    )


def not_in_trash(wanted: str, hint: str = "list the trash with `cortext restore`") -> NotFound:
    """The trash contains nothing with this key or name."""
    return NotFound(f"{wanted} is not in the trash", hint=hint)


def invalid_trash_key(key: str) -> InvalidId:
    """This cannot be the key of something in the trash."""
    return InvalidId(f"invalid trash key {ascii(key)[:120]}", hint="list the trash with `cortext restore`")


def not_fetched(path: str, reason: str) -> DamagedData:
    """A file of a session is a pointer of Git LFS."""
    return DamagedData(f"{path}: {reason}", kept="the pointer, unchanged", hint="run `git lfs pull`, then try again")


def memory_not_found(fact_id: str) -> NotFound:
    """The assistant remembers no fact with this id."""
    return NotFound(f"no memory {fact_id!r}", kept="nothing was changed", hint="list them with `alfred memory`")


def index_busy() -> SessionBusy:
    """The search index has one writer at a time, and another process is writing."""
    return SessionBusy(
        "the search index is being written by another process",
        kept="the index as it is",
        hint="try again when it is done; `cortext index status` shows the progress",
    )
