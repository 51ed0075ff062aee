"""Sessions that others share: continuing them, and finding the shares of a session."""

from __future__ import annotations

from cortext.errors import UsageError
from cortext.services.library.stores import Found, NamedStore
from cortext.services.workspace.lifecycle import fork
from cortext.store.server_capabilities import AuditEntry, ReadsShared, Share, Shares, SharesSessions

__all__ = ["AuditEntry", "Share", "Shares", "continued", "shares_of"]


def continued(found: Found, home: NamedStore) -> Found:
    """Return the session to continue: a copy in `home` if it is somebody else's and shared for reading only."""
    store = found.store
    if not isinstance(store, ReadsShared) or store.can_write(found.session.id):
        return found
    return Found(home, fork(found.named_store, found.session, home=home))


def shares_of(named_store: NamedStore) -> Shares:
    """Return the shares of a store's sessions; UsageError if they cannot be shared."""
    store = named_store.store
    if isinstance(store, ReadsShared):
        raise UsageError("the session belongs to somebody else", kept="nothing was changed", hint="ask its owner")
    if not isinstance(store, SharesSessions):
        raise UsageError(
            "only sessions on a server can be shared",
            kept="nothing was changed",
            hint="copy it there first: cortext store copy files server (docs/scale.md)",
        )
    return store.shares()
