"""Pruning: older messages move from the working log to the archive, after their key points are in the summary."""

from __future__ import annotations

import msgspec

from cortext.errors import UsageError
from cortext.model.message import thread
from cortext.model.session import BY_OTHER, Change
from cortext.services.library.stores import Found
from cortext.services.text.summarise import summarise
from cortext.store.capabilities import Compacts


class PrunePlan(msgspec.Struct, kw_only=True):
    """What would move: the messages below `before`; and the summary that covers them."""

    before: int
    to_archive: int
    to_keep: int
    summary: str


def plan_prune(found: Found, keep: int) -> PrunePlan:
    """Plan to archive the messages older than the newest `keep`, with a summary of them."""
    messages = list(found.store.read(found.session.id))
    older = messages[: max(0, len(messages) - keep)]
    if not older:
        return PrunePlan(before=0, to_archive=0, to_keep=len(messages), summary="")
    # The agent's own summary comes first: it knows the reasons. The one made from the text adds what it left out.
    existing = found.session.summary if found.session.summary_by != "text" else ""
    of_text = summarise(thread(older))
    summary = f"{existing}\n\n{of_text}" if existing and of_text not in existing else existing or of_text
    return PrunePlan(
        before=older[-1].seq + 1, to_archive=len(older), to_keep=len(messages) - len(older), summary=summary
    )


def prune(found: Found, plan: PrunePlan) -> int:
    """Write the summary first, then move; return how many messages moved."""
    store = found.store
    if not isinstance(store, Compacts):
        raise UsageError(f"sessions of {found.named_store.label} cannot be pruned", kept="it is unchanged")
    store.update(
        found.session.id,
        Change(
            summary=plan.summary,
            summary_covers=plan.before,
            summary_by=found.session.summary_by or (BY_OTHER if found.session.summary else "text"),
        ),
    )
    return store.compact(found.session.id, plan.before)
