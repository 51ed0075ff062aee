"""Listing, deleting, restoring and cleaning the sessions of `aur`. Listing imports nothing heavy."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from operator import attrgetter
from typing import Any

from cortext.agents.talk.sessions import clean
from cortext.config.schema import Settings
from cortext.errors import SessionNotFound, UsageError
from cortext.faces.terminal.output import columns, print_json
from cortext.faces.terminal.table import Column, columns_table, cut, fitted_table, map_values, shown_statuses, table
from cortext.model import clock
from cortext.model.query import Query
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.safety.framing import field
from cortext.services.library import last_command
from cortext.services.library.json_views import restored_json, session_json, trashed_json
from cortext.services.library.listing import Listing
from cortext.services.library.resolve import Resolver, resolve_trashed, with_exact_id
from cortext.wiring.stores import SPAWN, Stores

PROGRAM = "aur"  # whose last list the row numbers refer to
# The fields of a session in the table, and their headings. `damage` is shown as the status.
SHOWN = ("id", "agent", "message_count", "created_at", "status", "damage")
HEADS = ("SESSION_ID", "AGENT", "TURN_COUNT", "CREATED_AT", "STATUS")


def list_sessions(stores: Stores, options: Namespace) -> int:
    """Print the table of sessions, newest first."""
    listing = fresh_listing(stores)
    archived = "" if options.archived is None else "archived" if options.archived else "unarchived"
    filters = {"agent": options.agent or "", "status": options.status or "", "is": archived}
    query = Query(filters=filters, order="created_at")
    if options.json:
        rows = listing.rows(query)
        print_json([session_json(row) for row in rows])
        return 0
    found = listing.cells((*SHOWN, "root"), query)
    if found:
        print(session_table([cells[:-1] for cells in found]))
        last_command.remember_list(PROGRAM, ((cells[-1], cells[0]) for cells in found))
    elif options.agent or options.status or options.archived:
        print("No matching sessions.")
    else:
        print("No sessions yet. Start one with: aur spawn -i")
    return 0


def fresh_listing(stores: Stores) -> Listing:
    """Return the listing of aur's sessions, up to date."""
    listing = stores.listing(SPAWN)
    if listing.refresh():
        listing.refresh_all()  # cheap: one store with one file for each session
    return listing


def session_table(found: list[tuple[Any, ...]]) -> str:
    """Return the table of sessions, given as tuples of SHOWN: fitted to a terminal, complete elsewhere."""
    screen = columns()
    if screen:
        return _screen_table(found, screen)
    ids, agents, counts, times, statuses, damage = zip(*found, strict=True)
    cells = (
        ids,
        map_values(lambda agent: agent or "-", agents),
        map_values(str, counts),
        map_values(clock.minute, times),
        shown_statuses(statuses, damage),
    )
    return columns_table(HEADS, cells, styles=("cyan", "", "", "dim", ""))


def _screen_table(found: list[tuple[Any, ...]], screen: int) -> str:
    """Return the table with the row numbers that --resume accepts; on 80 columns everything fits but a long id."""
    ids, agents, counts, times, statuses, damage = zip(*found, strict=True)
    session_id, agent, turn_count, created_at, status = HEADS
    shown_status = ["damaged" if bad else state for state, bad in zip(statuses, damage, strict=True)]
    shown = [
        Column("#", [str(number) for number in range(1, len(ids) + 1)], right=True, style="dim"),
        Column(session_id, ids, style="cyan"),
        Column(agent, map_values(lambda name: cut(terminal.line(name), 12) or "-", agents), rank=2),
        Column(turn_count, map_values(str, counts), rank=4, right=True),
        Column(created_at, map_values(clock.short, times), rank=3, style="dim"),
        Column(status, shown_status, rank=1),
    ]
    return fitted_table(shown, 1, screen, least=14)[0]


def resolve(stores: Stores, wanted: str, *, words: bool = True) -> str:
    """Return the id of the session that `wanted` names. If nothing matches, list the newest sessions and raise."""
    if found := with_exact_id([stores.spawn_store()], wanted):
        return found[0].session.id
    rows = fresh_listing(stores).rows(Query(order="created_at"))
    names = Resolver(rows, shown=last_command.recall_list(PROGRAM), see="aur spawn --list-sessions")
    try:
        return names.resolve(wanted, words=words).id
    except SessionNotFound as error:
        error.kept = "nothing was changed"
        newest = [row for row in rows if not row.archived][:10]
        if newest:
            print(session_table(list(map(attrgetter(*SHOWN), newest))), file=sys.stderr)
            last_command.remember_list(PROGRAM, ((row.root, row.id) for row in newest))
        else:
            error.hint = "start one with: aur spawn -i"
        raise


def delete(stores: Stores, options: Namespace) -> int:
    """Move one session to the trash; on a terminal, ask first."""
    session_id = resolve(stores, options.delete_session, words=False)
    spawn_store = stores.spawn_store()
    store = spawn_store.store
    session = store.get(session_id)
    title = f' "{field(session.title)}"' if session.title else ""
    if sys.stdin.isatty() and not options.yes and not options.json:
        answer = input(f"Delete {session_id}{title} ({amount(session.message_count, 'turn')})? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Nothing was deleted.")
            return 1
    trashed = store.delete(session_id)
    if options.json:
        print_json(trashed_json(trashed))
        return 0
    print(f"Deleted session {session_id}{title} ({amount(session.message_count, 'turn')}).")
    print(terminal.line(f"It was in {spawn_store.root}."))
    print(f"Undo: aur spawn --restore {session_id}")
    return 0


def restore(stores: Stores, options: Namespace) -> int:
    """Restore the most recently deleted session of that name; without a name, list the trash."""
    spawn_store = stores.spawn_store()
    items = list(spawn_store.store.trash())
    if not options.restore:
        if options.json:
            print_json([trashed_json(item) for item in items])
        elif items:
            rows = [(item.session_id, clock.ago(item.deleted_at), item.key) for item in items]
            print(table(("SESSION_ID", "DELETED", "KEY"), rows, styles=("cyan", "", "dim")))
        else:
            print("The trash is empty.")
        return 0
    pairs = [(spawn_store, item) for item in items]
    _, item = resolve_trashed(pairs, options.restore, hint="aur spawn --restore lists the trash")
    session = spawn_store.store.restore(item.key)
    if options.json:
        print_json(restored_json(session))
    else:
        print(f"Restored session {session.id} ({amount(session.message_count, 'turn')}).")
    return 0


def clean_sessions(stores: Stores, options: Namespace) -> int:
    """Move the sessions that were inactive for longer to the trash; those in use stay."""
    days = _days(options.clean_sessions)
    spawn_store = stores.spawn_store(timeout=0.0)
    cleaned = clean(fresh_listing(stores), spawn_store.store, days)
    if options.json:
        print_json({"deleted": list(cleaned.deleted), "in_use": cleaned.in_use})
        return 0
    count = len(cleaned.deleted)
    place = f" in {spawn_store.root}:" if count else ""
    print(terminal.line(f"Deleted {amount(count, 'session')} older than {days:g} days{place or '.'}"))
    for session_id, title in cleaned.deleted.items():
        print(terminal.line(f'  {session_id} "{field(title)}"' if title else f"  {session_id}"))
    if cleaned.in_use:
        print(f"Kept, because they are in use: {', '.join(cleaned.in_use)}")
    if count:
        print("Undo, for each: aur spawn --restore ID")
    return 0


def expire(settings: Settings) -> int:
    """If the settings say so, trash old sessions in a background process; return its id, or 0."""
    days = settings.spawner.interactive.session_expiry_days
    if days <= 0:
        return 0
    command = [sys.executable, "-m", "cortext.agents.aur.main", "spawn", "--clean-sessions", str(days), "--json"]
    null = os.open(os.devnull, os.O_RDWR)
    try:
        # Not subprocess: a Popen object that is dropped before its process has ended issues a warning.
        streams = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (0, 1, 2)]
        return os.posix_spawn(sys.executable, command, os.environ, file_actions=streams, setpgroup=0)
    except OSError:
        return 0  # the next start tries again
    finally:
        os.close(null)


def _days(text: str) -> float:
    try:
        days = float(text)
        if 0 <= days < 1e6:
            return days
    except ValueError:
        pass
    raise UsageError(
        f"invalid number of days {text!r}", kept="nothing was deleted", hint="use: aur spawn --clean-sessions 30"
    )
