"""Checking the stores: what is wrong, where, and what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from cortext.config import folders
from cortext.errors import CortextError, StoreUnreachable
from cortext.model import clock
from cortext.model.ids import is_id
from cortext.services.capture import first_turns, uncaptured
from cortext.services.library.damage import problem_of
from cortext.services.library.stores import Found, NamedStore
from cortext.services.workspace import last_checks
from cortext.services.workspace.left import left
from cortext.store.base import Damage
from cortext.store.files.layout_paths import CONVERSATIONS, SESSION
from cortext.store.server_capabilities import ServerQueries
from cortext.tools.registry import title_of

if TYPE_CHECKING:
    from cortext.services.capture.rescue import Endangered

CAPTURE = "capture"
MOST_SHOWN = 20  # transcripts of one tool, each with its reason; then only their number
UNREACHABLE = "unreachable"  # the level of a finding: the server does not answer, so nothing is known
MOUNTS = "/proc/self/mounts"
CLOCK_TOLERANCE = 60.0  # seconds that two clocks may differ before it is reported
# File systems on which flock may not work across hosts, or not reliably.
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.rclone", "lustre"}
)


class Finding(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing that is wrong or, as `warning`, that cannot be promised, or, as `unreachable`, that is not known."""

    store: str
    level: str
    what: str
    session: str = ""
    todo: str = ""
    damage: list[Damage] = []


class StoreReport(msgspec.Struct, kw_only=True):
    """What doctor found in one store."""

    store: str
    kind: str
    path: str
    sessions: int
    messages: int
    findings: list[Finding]
    # Sessions on a server that were not active since then were found undamaged by an earlier run.
    since: str = ""


def examine(
    named_store: NamedStore, *, full: bool = False, away: dict[str, StoreUnreachable] | None = None
) -> StoreReport:
    """Check every session of a store, and the folder or server that it is in.

    On a server, the counts of the sessions that were active since the last check; with `full`, every session is read.
    Servers that do not answer are noted in `away`, and not asked again for another store.
    """
    if isinstance(named_store.store, ServerQueries):
        return _examine_server(named_store, named_store.store, full=full, away={} if away is None else away)
    findings = list(_folder_findings(named_store))
    sessions = messages = 0
    for session in named_store.store.sessions():
        sessions += 1
        messages += session.message_count
        problem = problem_of(Found(named_store, session))
        if problem is None:
            continue
        damage = problem.damage
        what = "; ".join(dict.fromkeys(f"{item.file} at byte {item.offset}: {item.reason}" for item in damage[:3]))
        if len(damage) > 3:
            what += f"; and {len(damage) - 3} more places"
        findings.append(
            Finding(
                store=named_store.label,
                level="damage",
                session=session.id,
                what=what or problem.what,
                todo=problem.todo,
                damage=list(damage),
            )
        )
    findings += [
        Finding(
            store=named_store.label,
            level="warning",
            session=gone.session_id,
            what=gone.text,
            todo=f"cortext restore {gone.session_id}",
        )
        for gone in left(named_store)
    ]
    return StoreReport(
        store=named_store.label,
        kind=named_store.kind,
        path=named_store.root,
        sessions=sessions,
        messages=messages,
        findings=findings,
    )


def uncaptured_findings() -> list[StoreReport]:
    """Return what could not be captured from the AI tools, and what they lost, as an entry of its own if any."""
    findings = []
    for alarm in uncaptured.alarms():
        if alarm.is_part:
            todo = "upgrade cortext, then run: cortext sync; the tool's own file has what is not read yet"
            findings.append(Finding(store=CAPTURE, level="warning", what=alarm.text, todo=todo))
            continue
        todo = "fix the cause or upgrade cortext, then run: cortext sync"
        shown = alarm.failures[:MOST_SHOWN]
        findings += [Finding(store=CAPTURE, level="damage", what=failure.text, todo=todo) for failure in shown]
        if len(alarm.failures) > MOST_SHOWN:
            findings.append(Finding(store=CAPTURE, level="damage", what=alarm.text, todo=todo))
    for record in first_turns.shortened():
        lost, do = first_turns.alarm(record, title_of(record.tool)), first_turns.what_to_do(record)
        findings.append(Finding(store=CAPTURE, level="damage", what=lost, todo=do))
    if not findings:
        return []
    folder = folders.state()
    return [StoreReport(store=CAPTURE, kind="transcripts", path=folder, sessions=0, messages=0, findings=findings)]


def purge_findings(endangered: Sequence[Endangered], notes: Sequence[str] = ()) -> list[StoreReport]:
    """Return what the AI tools are about to delete that is not kept, as an entry of its own if there is any."""
    findings = [Finding(store=item.tool, level="warning", what=item.text, todo="cortext rescue") for item in endangered]
    findings += [Finding(store=CAPTURE, level="warning", what=note) for note in notes]
    if not findings:
        return []
    folder = folders.state()
    return [StoreReport(store=CAPTURE, kind="transcripts", path=folder, sessions=0, messages=0, findings=findings)]


def _examine_server(
    named_store: NamedStore, server: ServerQueries, *, full: bool, away: dict[str, StoreUnreachable]
) -> StoreReport:
    """Check the server's state, and its counts against its rows; with `full`, also that every row can be read."""
    begin, address = clock.now(), named_store.root.partition("#")[0]
    examined = StoreReport(
        store=named_store.label, kind=named_store.kind, path=named_store.root, sessions=0, messages=0, findings=[]
    )
    examined.since = "" if full else last_checks.last_check(named_store.root)

    def add(level: str, what: str, todo: str, session: str = "") -> None:
        examined.findings.append(Finding(store=named_store.label, level=level, what=what, todo=todo, session=session))

    try:
        if address in away:
            raise away[address]
        state = server.server()
        examined.sessions, examined.messages = state.sessions, state.messages
        if abs(state.clock_ahead_s) > CLOCK_TOLERANCE:
            add(
                "warning",
                f"the server's clock differs from ours by {state.clock_ahead_s:+.0f} s",
                "synchronise both with a time server",
            )
        if not state.encrypted and not _is_local(state.address):
            add("warning", "data travels to the server unencrypted", "add ?sslmode=verify-full to the address")
        for what, todo in state.concerns():
            add("warning", what, todo)
        for session_id in server.miscounted(examined.since):
            add("damage", "its counts do not match its rows", f"cortext repair {session_id}", session_id)
        counted = {finding.session for finding in examined.findings}
        for session in named_store.store.sessions() if full and not server.shared else ():
            damage = [] if session.id in counted else named_store.store.check(session.id)
            for what in dict.fromkeys(item.reason for item in damage[:3]):
                add("damage", what, f"cortext repair {session.id}", session.id)
    except StoreUnreachable as error:
        away[address], examined.since = error, ""
        add(UNREACHABLE, error.message, error.hint)
    except CortextError as error:
        add("damage", error.message, error.hint)
    if all(finding.level == "warning" for finding in examined.findings):
        last_checks.record(named_store.root, begin)
    return examined


def _is_local(address: str) -> bool:
    """Whether a server is on this machine."""
    host = address.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return host.startswith(("127.", "localhost", "[::1]")) or not host


def _folder_findings(named_store: NamedStore) -> Iterator[Finding]:
    if os.access(named_store.root, os.R_OK | os.X_OK) and os.statvfs(named_store.root).f_flag & os.ST_RDONLY:
        yield Finding(
            store=named_store.label,
            level="warning",
            what=f"{named_store.root} is on a read-only file system",
            todo="its content can be listed, searched, read and exported; make it writable to add to it",
        )
    elif not os.access(named_store.root, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            store=named_store.label,
            level="damage",
            what=f"{named_store.root} cannot be read and written by this user",
            todo="check who owns the folder and its permissions",
        )
    kind = file_system_of(named_store.root)
    if kind in _NETWORK:
        yield Finding(
            store=named_store.label,
            level="warning",
            what=f"{named_store.root} is on a network file system ({kind})",
            todo="a single writer is only guaranteed on one host: do not write from two hosts at once",
        )
    if os.stat(named_store.root).st_mode & 0o077 and named_store.kind != "workspace":
        yield Finding(
            store=named_store.label,
            level="warning",
            what=f"{named_store.root} can be read by other users",
            todo=f"chmod 700 {named_store.root}",
        )
    yield from _invalid_names(named_store)


def _invalid_names(named_store: NamedStore) -> Iterator[Finding]:
    """Yield conversations that cannot be reached because of their name, or that share one."""
    if named_store.kind not in ("workspace", "home"):
        return
    seen: dict[str, str] = {}
    top = os.path.join(named_store.root, CONVERSATIONS)
    for folder, names, _ in os.walk(top):
        if SESSION in names:
            name = os.path.basename(folder)
            if not is_id(name):
                yield Finding(
                    store=named_store.label,
                    level="damage",
                    what=f"{folder}: the name is not a legal id",
                    todo="rename the folder: a-z, 0-9, _ and - only",
                )
            elif name in seen:
                yield Finding(
                    store=named_store.label,
                    level="damage",
                    session=name,
                    what=f"two conversations have this id: {seen[name]} and {folder}",
                    todo="rename one of the two folders",
                )
            seen.setdefault(name, folder)
            names.clear()


def file_system_of(path: str) -> str:
    """Return the type of file system that a path is on; empty if the system does not tell."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ")[1:3] for line in file]
    except OSError:
        return ""
    path = os.path.realpath(path)
    best, kind = "", ""
    for point, name in (fields for fields in mounts if len(fields) == 2):
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, name
    return kind
