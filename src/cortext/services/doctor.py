"""Checking the stores and what a workspace needs on this machine: what is wrong, where, and what to do about it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from cortext.config import folders
from cortext.config.load import settings_of
from cortext.distribution import install_hint
from cortext.errors import CortextError, StoreUnreachable, WriteFailed
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import is_id
from cortext.model.wording import listed
from cortext.services.capture import first_turns, uncaptured
from cortext.services.library.stores import NamedStore, StoredConversation, problem_of
from cortext.services.library.taken_by_git import left
from cortext.services.projects.git import MERGE_DRIVER, Git
from cortext.services.workspace import installed_tools
from cortext.services.workspace.committing import uncommitted
from cortext.services.workspace.merge_driver import has_attributes
from cortext.services.workspace.setup import load_manifest
from cortext.store.base import Damage
from cortext.store.files.layout_paths import CONVERSATIONS, SESSION
from cortext.store.server_capabilities import ServerQueries
from cortext.tools.base import Hooks, Installer, TranscriptSource
from cortext.tools.registry import title_of
from cortext.tools.shared.entries import NAME

if TYPE_CHECKING:
    from cortext.services.capture.rescue import PurgeWarning

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
        problem = problem_of(StoredConversation(named_store, session))
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


def purge_findings(endangered: Sequence[PurgeWarning], notes: Sequence[str] = ()) -> list[StoreReport]:
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
    examined.since = "" if full else _last_check(named_store.root)

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
        _record_check(named_store.root, begin)
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


# ── when a server was last found whole, so that the next run counts only what changed since ─────────


def _last_check(root: str) -> str:
    """Return when this store was last found undamaged; empty if never."""
    return _checks().get(root, "")


def _record_check(root: str, at: str) -> None:
    """Record that this store was undamaged at this time. A failure only means that the next run counts more."""
    try:
        durable.ensure_folder(folders.state())
        durable.replace_file(_checks_path(), [msgspec.json.encode(_checks() | {root: at})])
    except (OSError, WriteFailed):
        pass


def _checks() -> dict[str, str]:
    try:
        return msgspec.json.decode(durable.read_file(_checks_path()), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def _checks_path() -> str:
    return os.path.join(folders.state(), "checked.json")


# ── what a workspace needs on this machine ───────────────────────────────────────────────────────────


def workspace_findings(
    named_store: NamedStore, tools: Sequence[TranscriptSource], program: Sequence[str], unanswered: str = ""
) -> Iterator[Finding]:
    """Yield what is missing here, each with what to do about it. Nothing is changed.

    `unanswered` is what git did not say about other branches.
    """

    def warn(what: str, todo: str, session: str = "") -> Finding:
        return Finding(store=named_store.label, level="warning", what=what, todo=todo, session=session)

    if unanswered:
        yield warn(unanswered, "run `git gc`, or check out the branch")
    for session_id, why in uncommitted(named_store.root).items():
        yield warn(f"saved, but not committed to git yet: {why}", f"cortext stop {session_id}", session_id)
    try:
        manifest = load_manifest(named_store.root)
    except CortextError as error:
        yield warn(error.message, error.hint or "restore it from git")
        return
    if not manifest.version:
        return  # not set up by init: nothing is expected
    if shutil.which(program[0]) is None:
        yield warn(
            f"`{program[0]}` is not on PATH: hooks, MCP server and merge driver of this workspace cannot call it",
            "add the folder that it is installed in to PATH, for the AI tools too",
        )
    yield from (warn(*found) for found in _git_findings(named_store.root))
    missing = [path for path in manifest.files if not os.path.lexists(os.path.join(named_store.root, path))]
    if missing:
        names = listed(missing, 3)
        yield warn(
            f"files installed by `cortext init` are missing, and with them their commands or hooks: {names}",
            f"cortext upgrade, in {named_store.root}",
        )
    set_up = [tool for tool in tools if isinstance(tool, Installer) and tool.name in manifest.tools]
    try:
        settings_of(named_store.root)
    except CortextError as error:
        yield warn(error.message, error.hint or "correct or remove that file")
        return
    for tool in set_up:
        if tool.detect() is not None:
            yield from (warn(*found) for found in _tool_findings(named_store.root, tool, program))


def _git_findings(root: str) -> Iterator[tuple[str, str]]:
    git = Git(root)
    if not git.is_repository():
        return
    if not git.config(f"{MERGE_DRIVER}.driver"):
        yield (
            "git has no merge driver here: conversations that two machines continue will conflict",
            f"run any cortext command in {root}, or `cortext upgrade`",
        )
    if not has_attributes(root):
        yield "its .gitattributes does not name the merge driver and the line ends", f"cortext upgrade, in {root}"
    tracked = git.tracked_although_ignored("conversations")
    if tracked:
        yield (
            f"{len(tracked)} files of conversations are ignored by git but still tracked: changes to them stay out",
            f"git rm -r --cached {os.path.commonpath(tracked)}",
        )


def _tool_findings(root: str, tool: Installer, program: Sequence[str]) -> Iterator[tuple[str, str]]:
    try:
        missing = tool.install_settings(root, program, server=installed_tools.has_mcp_sdk(), dry_run=True)
    except CortextError as error:
        yield f"{tool.title}: {error.message}", error.hint
        return
    if missing:
        names = ", ".join(os.path.relpath(path, root) for path in missing)
        yield f"{tool.title}: our hooks or MCP entry are not in {names}", f"cortext upgrade, in {root}"
        return
    if not installed_tools.has_mcp_sdk() and NAME in tool.mcp_servers(root):
        yield (
            f"{tool.title} starts our MCP server, but the MCP SDK is not installed",
            install_hint(installed_tools.MCP_EXTRA),
        )
    for why, todo in tool.hooks_off(root) if isinstance(tool, Hooks) else ():
        yield f"{tool.title} does not run our hooks: {why}. Its sessions are captured only by `cortext sync`", todo
