"""cortext: every conversation with an AI agent is kept, found and continued, in any tool.

The names in `__all__` are the public library (docs/library.md); everything else may change with any release.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortext.api import (
        Library,
        Match,
        Receipt,
        ResumePacket,
        SearchResult,
        Store,
        list,
        open,
        read,
        resolve,
        resume_packet,
        search,
    )
    from cortext.errors import (
        AmbiguousId,
        ConfigError,
        CortextError,
        DamagedData,
        InvalidId,
        InvalidMessage,
        ModelError,
        NotFound,
        SessionBusy,
        SessionExists,
        SessionNotFound,
        StoreUnreachable,
        TransitionRefused,
        UnsafePath,
        UsageError,
        WriteFailed,
    )
    from cortext.model.message import Message, Part
    from cortext.model.session import Change, Session

__version__ = "0.2.0"

__all__ = [
    "AmbiguousId",
    "Change",
    "ConfigError",
    "CortextError",
    "DamagedData",
    "InvalidId",
    "InvalidMessage",
    "Library",
    "Match",
    "Message",
    "ModelError",
    "NotFound",
    "Part",
    "Receipt",
    "ResumePacket",
    "SearchResult",
    "Session",
    "SessionBusy",
    "SessionExists",
    "SessionNotFound",
    "Store",
    "StoreUnreachable",
    "TransitionRefused",
    "UnsafePath",
    "UsageError",
    "WriteFailed",
    "__version__",
    "list",
    "open",
    "read",
    "resolve",
    "resume_packet",
    "search",
]


_MODULES = ("cortext.errors", "cortext.model.message", "cortext.model.session", "cortext.api")


def __getattr__(name: str) -> object:
    """Import the library when it is first used: importing any module of this package runs this one first."""
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module 'cortext' has no attribute {name!r}")


def __dir__() -> Sequence[str]:
    return sorted({*globals(), *__all__})
