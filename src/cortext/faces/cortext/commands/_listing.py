"""The list of sessions as commands use it: up to date, with quiet conversations paused and notices shown once.

And `cortext` without a command: the workspace, the active conversations, and what to do next.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from glob import iglob

from cortext.config.load import settings_of
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import paint, report_missing
from cortext.faces.terminal.progress import progress_of_many, waiting
from cortext.faces.terminal.run import Command, refresh_later
from cortext.model import clock
from cortext.model.query import Query
from cortext.model.session import ACTIVE
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.capture import first_turns, uncaptured
from cortext.services.library.listing import Listing
from cortext.services.workspace import notices
from cortext.wiring.stores import HOME, WORKSPACE, Stores

SERVED = 200  # sessions that are listed if some are on a server, where there may be millions


def listing_with_notes(stores: Stores) -> tuple[Listing, list[str]]:
    """Return the list, and notes for the user."""
    listing = fresh_listing(stores)
    notes = [*notices.pop(), *stores.settings.unknown_warnings()]
    here = stores.workspace  # other workspaces are swept by a command there, or by `cortext sweep`
    if here and not stores.settings.broken:
        notes += _swept(listing, here)
    roots = [location.root for location in stores.locations() if location.kind == WORKSPACE]
    notes += [*_without_workspace(here), *_left(listing), *_not_committed(roots), *_not_captured(), *_shortened()]
    return listing, notes


def offer_import(stores: Stores) -> None:
    """At a terminal, if nothing is imported yet: offer to import what the AI tools have; see `import_.offer`."""
    if sys.stdin.isatty() and sys.stdout.isatty() and not stores.location(HOME).exists:
        from cortext.faces.cortext.commands.import_ import offer

        offer()


def import_line(stores: Stores) -> str:
    """Return the offer as a sentence, for a list in which there is nothing; empty if there is nothing to import."""
    if stores.location(HOME).exists:
        return ""
    from cortext.faces.cortext.commands.import_ import offered

    return offered()


def _swept(listing: Listing, here: str) -> list[str]:
    """Pause the conversations of this workspace that were quiet for too long; return notes about them."""
    if not listing.rows(Query(filters={"status": "active"}, roots=[here], limit=1)):
        return []
    from cortext.services.workspace.auto_pause import sweep

    with waiting():
        notes = sweep(listing, settings_of, only=here)
    if notes:
        listing.refresh()
    return notes


def print_notices() -> None:
    """Print what happened in the background, once, after the output of a command without notes."""
    for line in notices.pop():
        print(terminal.line(f"Note: {line}"), file=sys.stderr)


def _left(listing: Listing) -> list[str]:
    """Return a note about sessions that git took out of their work tree."""
    places = listing.places()
    if not places:
        return []
    from cortext.services.library.taken_by_git import note

    return note(places)


def _without_workspace(here: str) -> list[str]:
    """Return a note about a folder with conversations that is not a workspace: a clone without what `init` wrote."""
    if here or not os.path.isdir("conversations"):
        return []

    if next(iglob("conversations/*/*/.session/session.json"), None) is None:
        return []
    missing = "it has no .workspace, which may never have been committed"
    return [f"the conversations in this folder are not shown: {missing}; `cortext init` makes it a workspace"]


def _not_captured() -> list[str]:
    """Return notes about transcripts that could not be captured, or only in part."""
    failures = uncaptured.failures()
    in_part = [failure for failure in failures if failure.kind == uncaptured.PART]
    notes = []
    for found, state in (
        ([failure for failure in failures if failure not in in_part], "not captured"),
        (in_part, "read in part"),
    ):
        if len(found) > 1:
            since = clock.minute(found[0].since)
            notes.append(f"{len(found)} transcripts are {state}, since {since}: `cortext doctor` shows which and why")
        else:
            notes += [failure.text for failure in found]
    return notes


def _shortened() -> list[str]:
    """Return a note about conversations that a tool no longer holds as they were handed over."""
    if not first_turns.may_be_short():
        return []
    from cortext.wiring import tools

    first_turns.judge_smaller(tools.tool)
    found = first_turns.shortened()
    if len(found) > 1:
        return [f"{len(found)} conversations were shortened by the tool they were resumed in: see `cortext doctor`"]
    return [first_turns.alarm(record, tools.title(record.tool)) for record in found]


def _not_committed(roots: list[str]) -> list[str]:
    """Return a note about conversations that could not be committed."""
    if not any(os.path.isdir(os.path.join(root, ".workspace", "state", "uncommitted")) for root in roots):
        return []
    from cortext.services.workspace.committing import uncommitted

    found = [(session_id, why) for root in roots for session_id, why in uncommitted(root).items()]
    if len(found) > 1:
        return [f"{len(found)} conversations are saved, but not committed to git yet: `cortext doctor` shows why"]
    return [f"{session_id} is saved, but not committed to git yet: {why}" for session_id, why in found]


def fresh_listing(stores: Stores) -> Listing:
    """Return the list, brought up to date behind a progress bar if that takes a while."""
    listing = stores.listing()
    with progress_of_many("Reading sessions") as progress:
        is_due = listing.refresh(progress)
    if is_due:
        refresh_later()
    return listing


def run_status(arguments: list[str]) -> int:
    """Print a short overview."""
    stores = stores_for()
    offer_import(stores)
    listing, notes = listing_with_notes(stores)
    for line in notes:
        print(terminal.line(f"Note: {line}"))
    if stores.workspace:
        print(f"{paint('Workspace', 'bold')} {terminal.line(stores.workspace)}")
    else:
        print(f"No workspace here. {paint('cortext init', 'green')} sets one up in this folder.")
    limit = listing.limit(SERVED)
    answer = listing.answer(Query(filters={"is": "unarchived"}, limit=limit))
    rows = answer.rows
    if not rows and answer.away:
        return report_missing(answer.away)
    if not rows:
        if line := import_line(stores):
            print(line)
            return 0
        print(f"Nothing is stored yet. {paint('cortext import', 'green')} imports what your AI tools have stored;")
        print(f"{paint('cortext demo', 'green')} makes a workspace to try out.")
        return 0
    active = [row for row in rows if row.status == ACTIVE]
    earlier = [row for row in rows if row.status != ACTIVE]
    for label, some in (("active ", active[:5]), (paint("earlier", "dim"), earlier[:3])):
        for row in some:
            print(f"  {label}  {terminal.line(row.name)} {paint(f'({clock.ago(row.last_active)})', 'dim')}")
    total = f"{'At least ' if 0 < limit == len(rows) else ''}{amount(len(rows), 'conversation')} in all"
    print(f"{total}. {paint('cortext resume', 'green')} continues one, {paint('cortext help', 'green')} shows more.")
    return report_missing(answer.away)


STATUS = Command(ArgumentParser, run_status)  # `cortext` alone: no options
