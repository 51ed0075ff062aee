"""Committing conversations to git: without secrets, each as a whole, and none forgotten.

A commit that could not be made is recorded in `.workspace/state/uncommitted/`, made with the next save, and reported by
`list` and `doctor` until then.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence

from cortext.errors import CortextError, SessionBusy, SessionNotFound, UnsafePath
from cortext.io import durable, inside, locks
from cortext.model.ids import is_id
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.wording import amount
from cortext.safety.languages import git_subject, typed
from cortext.safety.secrets.masking import find, mask
from cortext.services.library.stores import NamedStore
from cortext.services.projects.git import TIMEOUT, CommitResult, Git
from cortext.services.text.message_masking import mask_session, mask_value
from cortext.store.base import Store
from cortext.store.capabilities import Rewrites
from cortext.store.files.layout_paths import LOCKS, SESSION, STATE
from cortext.store.files.merge import restore_log

AMENDED = 3_600.0  # seconds after a commit in which the answer to a stop is added to it
UNCOMMITTED = os.path.join(STATE, "uncommitted")
TOLD = os.path.join(STATE, "ignored-told")
_LOCK = os.path.join(STATE, LOCKS, ".git.lock")  # no session can have this name

_UNFINISHED = CommitResult(problem="its commit was not finished", hint="it is committed with the next save")
LARGEST_NOTES = 16 << 20
_MASKED = re.compile(r"\[masked ([a-z0-9-]{1,40}) [0-9a-f]{2,6}\]")


def commit_session(named_store: NamedStore, session: Session, *, amend: bool = False) -> tuple[Session, CommitResult]:
    """Commit one conversation, and those that could not be committed before; with `amend`, see `message_to_amend`.

    Return the session as it is then, and the result of its own commit.
    """
    (session,), done = commit_sessions(named_store, [session], amend=amend)
    return session, done


def commit_sessions(
    named_store: NamedStore, sessions: Sequence[Session], *, amend: bool = False
) -> tuple[list[Session], CommitResult]:
    """Do the same for several conversations, with one commit."""
    git = Git(named_store.root)
    if not git.is_repository():
        masked_sessions = [mask_stored(named_store.store, session) for session in sessions]
        why = CommitResult(problem="this workspace is not in git", hint="run git init, and the next save is committed")
        return masked_sessions, why
    # Recorded first: a tool may not wait for us and may end us while others use the repository.
    for session in sessions:
        _record(named_store.root, session.id, _UNFINISHED)
    lock = locks.Lock(inside.inside(named_store.root, _LOCK))
    try:
        lock.acquire(TIMEOUT, "the git repository of this workspace")
    except SessionBusy as error:
        busy = CommitResult(problem=error.message, hint="it is committed with the next save")
        for session in sessions:
            _record(named_store.root, session.id, busy)
        return list(sessions), busy
    with lock:
        committed, done = _commit(named_store, git, sessions, amend=amend)
        names = {session.id for session in committed}
        for session_id in uncommitted(named_store.root):
            if session_id not in names:
                _retry_commit(named_store, git, session_id)
    return committed, done


def _commit(
    named_store: NamedStore, git: Git, sessions: Sequence[Session], *, amend: bool = False
) -> tuple[list[Session], CommitResult]:
    """Commit conversations: their folders and nothing else, after a final check for secrets."""
    sessions = [mask_stored(named_store.store, session) for session in sessions]
    session_in = {os.path.relpath(session.path, named_store.root): session for session in sessions}
    folders = list(session_in)
    inside = tuple(os.path.join(folder, SESSION) + os.sep for folder in folders)
    changed = git.changed(folders)
    notes = [path for path in changed if not path.startswith(inside)]
    # What is beside the session, the notes too, is not ours to change: if it contains a secret, it stays out of git.
    secret = {**secrets_in(named_store.root, notes), **secrets_in_names(named_store.root, notes)}
    session = sessions[0]
    if len(sessions) > 1:
        message = f"session update: {amount(len(sessions), 'conversation')}"
    elif changed and not notes:
        message = f"session update: {session.id} ({session.message_count} messages, {session.status})"
    else:
        message = (
            f"{session.type or 'conversation'}: {session.title or session.id} (session state saved, {session.status})"
        )

    def restore(path: str, contents: bytes) -> None:
        target = os.path.join(named_store.root, path)
        owner = next(held for folder, held in session_in.items() if path.startswith(folder + os.sep))
        with named_store.store.open(owner.id):  # no one else writes to it meanwhile
            if path.endswith(".jsonl"):
                restore_log(target, contents)
            else:
                durable.replace_file(target, [contents])

    ours = [os.path.join(folder, SESSION) for folder in folders]
    earlier = message_to_amend(git, folders) if amend else ""
    done = git.commit(
        folders,
        earlier or git_subject(mask(message).text),
        ours=ours,
        restore=restore,
        without=secret,
        amend=bool(earlier),
    )
    if secret and not done.problem:
        kept = "; ".join(f"{mask(path).text} was not committed: {why}" for path, why in secret.items())
        note = f"{kept}. Remove the secret from it, or list it in .gitignore"
        done.note = f"{done.note}. {note}" if done.note else note
    if told := _still_tracked(named_store.root, git):
        done.note = f"{done.note}. {told}" if done.note else told
    for session in sessions:
        _record(named_store.root, session.id, done)
    return sessions, done


def _still_tracked(root: str, git: Git) -> str:
    """Say, once, how to take out of git what was ignored after it had been committed."""
    tracked, told = git.tracked_although_ignored("conversations"), inside.read(root, TOLD) is not None
    if told != bool(tracked):
        inside.write(root, TOLD, b"") if tracked else inside.remove(root, TOLD)
    if told or not tracked:
        return ""
    files = amount(len(tracked), "file")
    command = typed(["git", "rm", "-r", "--cached", "--", os.path.commonpath(tracked)])
    return (
        f".gitignore names {files} of conversations that git still has: `{command}` takes them out, and they stay here"
    )


def message_to_amend(git: Git, folders: Sequence[str]) -> str:
    """Return the message of the last commit, if it is new, of these folders alone, and on no other branch or remote."""
    refs = (git.reading("for-each-ref", "--contains", "HEAD", "--format=%(refname)") or b"").split()
    if len(refs) > 1 or not all(ref.startswith(b"refs/heads/") for ref in refs):
        return ""
    prefix = (git.reading("rev-parse", "--show-prefix") or b"").strip()
    inside = tuple(prefix + os.fsencode(folder) + b"/" for folder in folders)
    names = git.reading("diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", "HEAD") or b""
    made, _, message = (git.reading("log", "-1", "--format=%ct%n%B") or b"").partition(b"\n")
    is_new = made.isdigit() and time.time() - int(made) < AMENDED
    is_own = bool(names) and all(name.startswith(inside) for name in names.rstrip(b"\0").split(b"\0"))
    return message.decode("utf-8", "replace") if is_new and is_own else ""


def finish_commits(named_store: NamedStore) -> list[tuple[Session, CommitResult]]:
    """Make the commits that could not be made before; return each session with the result."""
    git = Git(named_store.root)
    waiting = uncommitted(named_store.root)
    if not waiting or not git.is_repository():
        return []
    lock = locks.Lock(inside.inside(named_store.root, _LOCK))
    lock.acquire(TIMEOUT, "the git repository of this workspace")
    with lock:
        tried = [_retry_commit(named_store, git, session_id) for session_id in waiting]
    return [pair for pair in tried if pair is not None]


def _retry_commit(named_store: NamedStore, git: Git, session_id: str) -> tuple[Session, CommitResult] | None:
    """Retry a commit that could not be made before; its record stays if it still cannot be."""
    try:
        (session,), done = _commit(named_store, git, [named_store.store.get(session_id)])
        return session, done
    except SessionNotFound:
        _record(named_store.root, session_id, CommitResult())
    except CortextError:
        pass  # in use at the moment, for example
    return None


def uncommitted(root: str) -> dict[str, str]:
    """Return the conversations of a workspace that could not be committed, and why."""
    found = {}
    try:
        for name in sorted(filter(is_id, os.listdir(inside.inside(root, UNCOMMITTED)))):
            why = inside.read(root, os.path.join(UNCOMMITTED, name)) or b""
            found[name] = why.decode("utf-8", "replace")[:1000].strip()
    except (OSError, UnsafePath):
        pass  # none, or a save has just committed it; or we may not read it: the next save says so
    return found


def _record(root: str, session_id: str, done: CommitResult) -> None:
    path = os.path.join(UNCOMMITTED, session_id)
    if done.problem:
        inside.write(root, path, f"{done.problem}; {done.hint}\n".encode("utf-8", "surrogateescape"))
    else:
        inside.remove(root, path)


def count_masked(messages: Iterable[Message]) -> dict[str, int]:
    """Count the secrets that were masked in these messages, by kind, to tell the user."""
    kinds: dict[str, int] = {}
    for message in messages:
        texts = [message.content, *(part.output for part in message.parts or ())]
        for kind in (kind for text in texts if "[masked " in text for kind in _MASKED.findall(text)):
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def mask_stored(store: Store, session: Session) -> Session:
    """Mask what is stored of a session (another program or an older version may have written it); return it."""
    if isinstance(store, Rewrites) and store.rewrite(session.id, mask_value):
        session = store.get(session.id)
    masked = mask_session(session)
    names = [name for name in Change.__struct_fields__ if getattr(masked, name, None) != getattr(session, name, None)]
    return store.update(session.id, Change(**{name: getattr(masked, name) for name in names})) if names else session


def secrets_in(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Return which of these files must not be committed, and why. Nothing is changed; binary files are fine."""
    found: dict[str, str] = {}
    for name in names:
        raw = _contents(os.path.join(folder, name))
        if raw is None:
            found[name] = f"it has over {LARGEST_NOTES >> 20} MB, too much to check for secrets"
        elif b"\0" not in raw:
            kinds = dict.fromkeys(finding.kind for finding in find(raw.decode("utf-8", "surrogateescape")))
            if kinds:
                found[name] = f"it contains a secret ({', '.join(kinds)})"
    return found


def secrets_in_names(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Return which of these files have a secret in their name, or in the path that they link to, and what it is."""
    found: dict[str, str] = {}
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            continue  # deleted: what git has of it may go
        target = os.readlink(path) if os.path.islink(path) else ""
        for text, where in ((name, "its name has a secret in it"), (target, "it links to a path with a secret in it")):
            kinds = dict.fromkeys(finding.kind for finding in find(text))
            if kinds:
                found[name] = f"{where} ({', '.join(kinds)})"
    return found


def _contents(path: str) -> bytes | None:
    """Return the content of a file; empty if it was deleted or is a link, None if it is too large to check."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except (OSError, UnsafePath):  # git stores a link's target path, not the content of the target
        return b""
    try:
        size = os.fstat(descriptor).st_size
        return b"".join(durable.read_blocks(descriptor, 0, size)) if size <= LARGEST_NOTES else None
    finally:
        os.close(descriptor)
